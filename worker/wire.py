"""The pipes between a keeper and its runner: frames and answers go in, messages come out, and so does what is printed."""

import contextlib
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import anyio

_CHUNK = 1 << 20  # as much as a pipe can hold


@dataclass(slots=True)
class Wire:
    """The keeper's ends, none of which ever blocks. ``message`` and ``output`` are called with what comes."""

    message: Callable[[list[Any]], None]
    output: Callable[[bytes], None]
    _feed: int = -1
    _messages: int = -1
    _output: int = -1
    _answers: int = -1
    _rest: bytes = b""

    def open(self) -> tuple[int, int, int, int]:
        """The runner's ends, for feed, messages, output and answers; the caller closes them."""
        feed, self._feed = os.pipe()
        self._messages, messages = os.pipe()
        self._output, output = os.pipe()
        answers, self._answers = os.pipe()
        for descriptor in (self._feed, self._messages, self._output, self._answers):
            os.set_blocking(descriptor, False)
        return feed, messages, output, answers

    def greet(self, data: bytes) -> None:
        """Write the first line, which an empty pipe has room for."""
        os.write(self._feed, data)

    async def write(self, data: bytes, is_wanted: Callable[[], bool]) -> None:
        """Feed all of ``data``; waits while the pipe is full, gives up when nobody wants it any more."""
        await _write(lambda: self._feed, data, is_wanted)

    async def answer(self, data: bytes, is_wanted: Callable[[], bool]) -> None:
        """Answer with all of ``data``, likewise."""
        await _write(lambda: self._answers, data, is_wanted)

    async def listen(self) -> None:
        """Hear everything until it is cancelled or both pipes have ended."""
        async with anyio.create_task_group() as group:
            group.start_soon(self._listen, self._messages, self._hear_messages)
            group.start_soon(self._listen, self._output, self.output)

    async def _listen(self, descriptor: int, hear: Callable[[bytes], None]) -> None:
        while True:
            await anyio.wait_readable(descriptor)
            data = _read(descriptor)
            if data == b"":
                return
            if data:
                hear(data)

    def drain(self) -> None:
        """Hear what is there now, and not what is written meanwhile: that may never end."""
        if self._messages >= 0 and (data := _read(self._messages)):
            self._hear_messages(data)
        if self._output >= 0 and (data := _read(self._output)):
            self.output(data)

    def hang_up(self) -> None:
        """Say that there is no more to do."""
        if self._feed >= 0:
            os.close(self._feed)
            self._feed = -1

    def close(self) -> None:
        """Let the pipes go."""
        self.hang_up()
        for descriptor in (self._messages, self._output, self._answers):
            if descriptor >= 0:
                os.close(descriptor)
        self._messages = self._output = self._answers = -1

    def _hear_messages(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            with contextlib.suppress(ValueError):
                self.message(json.loads(line))


async def _write(where: Callable[[], int], data: bytes, is_wanted: Callable[[], bool]) -> None:
    view = memoryview(data)
    while view and where() >= 0 and is_wanted():
        try:
            view = view[os.write(where(), view) :]
        except BlockingIOError:
            with anyio.move_on_after(0.1):
                await anyio.wait_writable(where())
        except BrokenPipeError:
            return


def _read(descriptor: int) -> bytes | None:
    """What can be read now; b"" at the end, None when there is nothing yet."""
    try:
        return os.read(descriptor, _CHUNK)
    except BlockingIOError:
        return None
