"""The runner a keeper keeps: start it, feed it, hear it, end it, and know what it was doing when it died."""

import contextlib
import json
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import anyio

from stoker.hygiene.process import Child, describe_exit, end_strays, end_tree, spawn
from stoker.worker.book import DONE, FAILED, Book, Entry
from stoker.worker.capture import Ear
from stoker.worker.orders import Orders
from stoker.worker.slate import Slate, create

_CHUNK = 1 << 18
_FRAME_BYTES = 1 << 20
_TIMER_SLACK_SECONDS = 5.0


@dataclass(slots=True)
class Death:
    """How a runner ended: "SIGKILL", "exit status 3"; the task it was running, if any; what it had finished till then."""

    how: str
    entry: Entry | None
    over: list[Entry]


@dataclass(slots=True)
class Pen:
    """One runner at a time. ``wake`` is called whenever there is something to look at."""

    orders: Orders
    environment: dict[str, str]
    book: Book
    wake: Callable[[], None]
    starts: int = 0
    ready: bool = False
    broken: str | None = None
    dead: bool = False
    _child: Child | None = None
    _slate: Slate | None = None
    _ear: Ear | None = None
    _feed: int = -1
    _acks: int = -1
    _out: int = -1
    _rest: bytes = b""
    _busy_seconds: float = 0.0
    _gone: anyio.Event = field(default_factory=anyio.Event)
    _writing: anyio.Lock = field(default_factory=anyio.Lock)

    def start(self) -> None:
        """Start a runner; ``ready`` or ``broken`` is set when it has looked at its handler."""
        self.ready, self.broken, self.dead, self._rest = False, None, False, b""
        self._busy_seconds, self._gone = 0.0, anyio.Event()
        page = create()
        feed_end, self._feed = os.pipe()
        self._acks, acks_end = os.pipe()
        self._out, out_end = os.pipe()
        nonce = secrets.token_hex(8)
        try:
            self._child = spawn(
                [sys.executable, "-P", "-m", "stoker.worker.runner", str(feed_end), str(acks_end), str(page)],
                env=self.environment,
                cwd=self.orders.folder,
                stdin=subprocess.DEVNULL,
                stdout=out_end,
                stderr=out_end,
                pass_fds=(feed_end, acks_end, page),
                die_with_parent=True,
            )
            slate = self._slate = Slate(page)
        finally:
            for descriptor in (page, feed_end, acks_end, out_end):
                os.close(descriptor)
        for descriptor in (self._feed, self._acks, self._out):
            os.set_blocking(descriptor, False)
        self._ear = Ear(nonce, self.orders.output_limit, lambda: (slate.running() or (slate.finished, 0))[0])
        self.starts += 1
        os.write(self._feed, (json.dumps(self._hello(nonce)) + "\n").encode())

    def _hello(self, nonce: str) -> dict[str, Any]:
        mode = self.orders.mode
        timer = None if mode.timeout is None else mode.timeout + self.orders.grace + _TIMER_SLACK_SECONDS
        return {
            "nonce": nonce,
            "handler": mode.handler,
            "folder": self.orders.folder,
            "mode": mode.name,
            "installation": self.orders.installation,
            "errors": mode.errors,
            "secret_names": sorted(mode.secrets()),
            "label": mode.label,
            "result_limit": self.orders.result_limit,
            "timer_seconds": timer,
        }

    async def attend(self) -> None:
        """Hear one runner until it is gone, and everything under it."""
        child = self._require()
        async with anyio.create_task_group() as group:
            group.start_soon(self._listen, self._acks, self._hear_acks)
            group.start_soon(self._listen, self._out, self._hear_output)
            await child.wait()
            group.cancel_scope.cancel()
        end_strays()
        self._drain()
        self.dead = True
        self._gone.set()
        self.wake()

    async def feed(self, first: int, entries: list[Entry]) -> None:
        """Hand over tasks; waits while the pipe is full, gives up when the runner is gone. In the order of the calls."""
        runner = self.starts
        async with self._writing:
            await self._write_frames(runner, first, entries)

    async def _write_frames(self, runner: int, first: int, entries: list[Entry]) -> None:
        parts: list[str] = []
        size, number = 0, first
        for place, entry in enumerate(entries):
            parts.append(f"[{entry.id},{entry.attempt},{entry.payload}]")
            size += len(entry.payload)
            if size > _FRAME_BYTES or place == len(entries) - 1:
                frame = f"[{number},[{','.join(parts)}]]".replace("\n", " ").replace("\r", " ")
                await self._write(runner, (frame + "\n").encode())
                parts, size, number = [], 0, first + place + 1

    def harvest(self) -> list[Entry]:
        """Note in the book what the runner has finished, with times and output; the entries."""
        if self._slate is None or self._ear is None:
            return []
        finished, busy = self._slate.finished, self._slate.busy_seconds
        self._drain()
        over = self.book.finish(finished)
        unkept = [entry for entry in over if entry.seconds is None]
        took = busy - self._busy_seconds - sum(entry.seconds or 0.0 for entry in over)
        for entry in over:
            entry.output = self._ear.take(entry.number)
            entry.mean = max(took, 0.0) / len(unkept) if entry.seconds is None else entry.seconds
        self._busy_seconds = busy
        return over

    def running(self) -> tuple[Entry, float] | None:
        """The task that runs now and for how many seconds; None between tasks."""
        at = self._slate.running() if self._slate and not self.dead else None
        entry = self.book.find(at[0]) if at else None
        return (entry, (time.monotonic_ns() - at[1]) / 1e9) if at and entry else None

    async def retire(self, grace_seconds: float) -> None:
        """Tell an idle runner that there is no more, give it time to leave by itself, then end it and all below it."""
        if self._child is None:
            return
        if self._feed >= 0:
            os.close(self._feed)
            self._feed = -1
        with anyio.move_on_after(grace_seconds if self.running() is None else 0):
            await self._gone.wait()
        await end_tree(self._child, grace_seconds=grace_seconds)

    async def end(self, grace_seconds: float) -> None:
        """End the runner and the whole tree under it: TERM, grace, KILL."""
        if self._child is not None:
            await end_tree(self._child, grace_seconds=grace_seconds)

    def bury(self) -> Death:
        """What a dead runner leaves: its verdicts are in the book, the rest of what it was fed is unfed again."""
        child = self._require()
        over = self.harvest()
        at = self._slate.running() if self._slate else None
        victim = self.book.find(at[0]) if at else None
        if victim is not None and victim.said is not None:
            over += self.book.finish(victim.number)
            victim = None
        if victim is not None and self._ear is not None:
            victim.output = self._ear.take(victim.number)
        self.book.take_back()
        self.close()
        return Death(describe_exit(child.returncode), victim, over)

    def close(self) -> None:
        """Let the pipes and the page go."""
        for descriptor in (self._feed, self._acks, self._out):
            if descriptor >= 0:
                os.close(descriptor)
        self._feed = self._acks = self._out = -1
        if self._slate is not None:
            self._slate.close()
        self._slate = self._child = self._ear = None

    @property
    def exists(self) -> bool:
        """Whether a runner was started and not buried."""
        return self._child is not None

    def _require(self) -> Child:
        if self._child is None:
            raise RuntimeError("no runner was started")
        return self._child

    async def _write(self, runner: int, data: bytes) -> None:
        view = memoryview(data)
        while view and not self.dead and self.starts == runner and self._feed >= 0:
            try:
                view = view[os.write(self._feed, view) :]
            except BlockingIOError:
                with anyio.move_on_after(0.1):
                    await anyio.wait_writable(self._feed)
            except BrokenPipeError:
                return

    async def _listen(self, descriptor: int, hear: Callable[[bytes], None]) -> None:
        while True:
            await anyio.wait_readable(descriptor)
            data = _read(descriptor)
            if data == b"":
                return
            if data:
                hear(data)

    def _drain(self) -> None:
        for descriptor, hear in ((self._acks, self._hear_acks), (self._out, self._hear_output)):
            while descriptor >= 0 and (data := _read(descriptor)):
                hear(data)

    def _hear_output(self, data: bytes) -> None:
        if self._ear is not None:
            self._ear.hear(data)

    def _hear_acks(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            with contextlib.suppress(ValueError):
                self._note(json.loads(line))
        self.wake()

    def _note(self, message: list[Any]) -> None:
        match message:
            case ["done", number, result, label, seconds]:
                if entry := self.book.find(number):
                    entry.said, entry.result, entry.label, entry.seconds = DONE, result, label, seconds
            case ["failed", number, kind, text, permanent, seconds]:
                if entry := self.book.find(number):
                    entry.said, entry.error_kind, entry.error, entry.seconds = FAILED, kind, text, seconds
                    entry.is_permanent = permanent
            case ["ready"]:
                self.ready = True
            case ["broken", text]:
                self.broken = text
            case _:
                return


def _read(descriptor: int) -> bytes | None:
    """What can be read now; b"" at the end, None when there is nothing yet."""
    try:
        return os.read(descriptor, _CHUNK)
    except BlockingIOError:
        return None
