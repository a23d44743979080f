"""The shared page on which a runner says what it is doing, without a system call, and which survives its death.

Four 64-bit words: the number of the task that was started last, when that was (monotonic nanoseconds, which both
processes share), how many tasks are finished, and the nanoseconds all of them took. Tasks are numbered from 1 in the
order they are fed, and run in it.
What is more than a plain success goes through the pipe before the task is counted as finished.
"""

import mmap
import os
import tempfile

_STARTED, _STARTED_AT, _FINISHED, _BUSY = 0, 1, 2, 3
SIZE = mmap.PAGESIZE


def create() -> int:
    """A file descriptor of a fresh page, without a name; the caller closes it."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("stoker-slate")
    else:
        descriptor, path = tempfile.mkstemp(prefix="stoker-slate")
        os.unlink(path)  # noqa: PTH108 - a path object gains nothing here
    os.ftruncate(descriptor, SIZE)
    return descriptor


class Slate:
    """A view on the page behind a descriptor; one side writes, the other reads."""

    def __init__(self, descriptor: int) -> None:
        self._map = mmap.mmap(descriptor, SIZE)
        self._words = memoryview(self._map).cast("Q")

    def start(self, number: int, now_ns: int) -> None:
        """Say that task ``number`` starts, at ``now_ns`` of the monotonic clock."""
        self._words[_STARTED_AT] = now_ns
        self._words[_STARTED] = number

    def finish(self, number: int, took_ns: int) -> None:
        """Say that every task up to ``number`` is finished, and that the last one took ``took_ns``."""
        self._words[_BUSY] += took_ns
        self._words[_FINISHED] = number

    @property
    def busy_seconds(self) -> float:
        """What all finished tasks took."""
        return self._words[_BUSY] / 1e9

    @property
    def finished(self) -> int:
        """How many tasks are finished."""
        return self._words[_FINISHED]

    def running(self) -> tuple[int, int] | None:
        """The task that runs and when it started (nanoseconds), or None between tasks."""
        started, at = self._words[_STARTED], self._words[_STARTED_AT]
        return (started, at) if started > self._words[_FINISHED] else None

    def close(self) -> None:
        """Let the page go."""
        self._words.release()
        self._map.close()
