"""What tasks print, task by task, bounded.

A runner's standard output and error are one pipe to the keeper. Before the first words of a task the runner writes a
mark with the task's number, and at its end one with 0; what comes outside marks, from below Python or from a program
that the handler started, belongs to the task that runs. The keeper always drains the pipe, so that nobody blocks on it.
"""

import io
import os
from collections.abc import Callable
from contextvars import ContextVar

_MARK = b"\x1e"


class Voice(io.TextIOBase):
    """Standard output and error of a runner: unbuffered by task, marked with the task's number."""

    encoding = "utf-8"
    errors = "backslashreplace"

    def __init__(self, nonce: str) -> None:
        self._nonce = nonce.encode()
        self._pending = bytearray()
        self._marked = False
        self.number = 0
        self.has_spoken = False

    def writable(self) -> bool:
        """Always: this is an output."""
        return True

    def fileno(self) -> int:
        """Standard output, for those who write below Python."""
        return 1

    def write(self, text: str) -> int:
        """Take ``text``; it leaves at the end of a line, of the task, or of 8 KiB."""
        self.has_spoken = True
        self._pending += text.encode("utf-8", "backslashreplace")
        if b"\n" in self._pending or len(self._pending) > 8192:
            self.flush()
        return len(text)

    def flush(self) -> None:
        """Send what is pending, with the mark of its task first."""
        if not self._pending:
            return
        if not self._marked:
            self._marked = True
            self._pending[:0] = self._mark(self.number)
        data = memoryview(bytes(self._pending))
        self._pending.clear()
        while data:
            data = data[os.write(1, data) :]

    def end_task(self) -> None:
        """Send what the task left unsent, and say that it ends, if it said anything."""
        if self._pending or self._marked:
            self._pending += self._mark(0)
            self.flush()
            self._marked = False
        self.has_spoken = False

    def _mark(self, number: int) -> bytes:
        return _MARK + self._nonce + b" %d\n" % number


class MixedVoice(Voice):
    """For tasks that run at the same time: what a task writes is marked with the number of the context it runs in."""

    def __init__(self, nonce: str) -> None:
        super().__init__(nonce)
        self._speaker: ContextVar[int] = ContextVar("speaker", default=0)

    def speak_for(self, number: int) -> None:
        """What this context, and those made in it, write from now on is of task ``number``."""
        self._speaker.set(number)

    def write(self, text: str) -> int:
        """Take ``text``, and let what another task wrote before go first."""
        speaker = self._speaker.get()
        if speaker != self.number:
            self.turn_to(speaker)
        return super().write(text)

    def turn_to(self, number: int) -> None:
        """Send what is pending; what follows is of task ``number``."""
        self.end_task()
        self.number = number


class Tail:
    """The last ``limit`` bytes of what was added, with a mark for what was cut before them."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._kept = bytearray()
        self._cut = 0

    def add(self, data: bytes) -> None:
        """Take more output."""
        self._kept += data
        surplus = len(self._kept) - self._limit
        if surplus > 0:
            del self._kept[:surplus]
            self._cut += surplus

    def text(self) -> str:
        """What is kept, decoded leniently, without NUL."""
        text = self._kept.decode("utf-8", "replace").replace("\0", "\ufffd")
        return f"[... {self._cut:,} bytes cut ...]\n{text}" if self._cut else text

    def whole_lines(self) -> str:
        """The same without a mark, and without the line that was cut."""
        text = self._kept.decode("utf-8", "replace").replace("\0", "\ufffd")
        return text.partition("\n")[2] if self._cut else text


class Ear:
    """The keeper's side: sorts a runner's output by task."""

    def __init__(self, nonce: str, limit_bytes: int, running: Callable[[], int]) -> None:
        self._mark = _MARK + nonce.encode() + b" "
        self._limit = limit_bytes
        self._running = running
        self._marked = 0
        self._rest = b""
        self._tails: dict[int, Tail] = {}

    def hear(self, data: bytes) -> None:
        """Take a chunk as it was read, wherever it was cut."""
        data, self._rest = self._rest + data, b""
        while data:
            before, mark, after = data.partition(self._mark)
            if not mark:
                keep = self._unfinished_mark(data)
                self._add(data[: len(data) - keep])
                self._rest = data[len(data) - keep :] if keep else b""
                return
            self._add(before)
            number, newline, data = after.partition(b"\n")
            if not newline:
                self._rest = mark + after
                return
            self._marked = int(number) if number.isdigit() else self._marked

    def numbers(self) -> list[int]:
        """The tasks that have printed something."""
        return list(self._tails)

    def take(self, number: int) -> str | None:
        """The output of task ``number``, given up; None when it printed nothing."""
        tail = self._tails.pop(number, None)
        return tail.text() if tail else None

    def _unfinished_mark(self, data: bytes) -> int:
        """How many bytes at the end of ``data`` may be the beginning of a mark."""
        start = data.rfind(_MARK, -len(self._mark))
        return len(data) - start if start >= 0 and self._mark.startswith(data[start:]) else 0

    def _add(self, data: bytes) -> None:
        if data:
            number = self._marked or self._running()
            self._tails.setdefault(number, Tail(self._limit)).add(data)
