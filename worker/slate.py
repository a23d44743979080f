"""The shared page on which a runner says what it is doing, without a system call, and which survives its death.

Words of 64 bits. Six stand first: how many tasks are finished, the nanoseconds they took, the first and last number of
the tasks that the keeper has taken back, how many were told of as ended, and how many of those the keeper has read. Then
come pairs, one for each task that may run at a time: its number, and when it was started (monotonic nanoseconds, which
both processes share). Tasks are numbered from 1 in the order they are fed; a pair whose number is finished is idle. A
second page is a ring of those told of as ended, where they end in any order: the number, and the nanoseconds. A third
says of each pair which task in it is called off.
What is more than a plain success goes through the pipe before the task is counted as finished.
"""

import mmap
import os

_FINISHED, _BUSY, _TAKEN_FROM, _TAKEN_TO, _ENDED, _READ, _PAIRS = 0, 1, 2, 3, 4, 5, 6
_RING = mmap.PAGESIZE // 8
_RING_TASKS = _RING // 2
_CALLED_OFF = 2 * _RING
SIZE = 3 * mmap.PAGESIZE
MOST_AT_A_TIME = 250


def create() -> int:
    """A file descriptor of a fresh page, without a name; the caller closes it."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("stoker-slate")
    else:
        import tempfile

        descriptor, path = tempfile.mkstemp(prefix="stoker-slate")
        os.unlink(path)  # noqa: PTH108 - a path object gains nothing here
    os.ftruncate(descriptor, SIZE)
    return descriptor


class Slate:
    """A view on the page behind a descriptor; one side writes, the other reads."""

    def __init__(self, descriptor: int) -> None:
        self._map = mmap.mmap(descriptor, SIZE)
        self._words = memoryview(self._map).cast("Q")

    def start(self, number: int, now_ns: int, pair: int = 0) -> bool:
        """Say that task ``number`` starts, at ``now_ns`` of the monotonic clock; False when it was taken back.

        Said first and looked at afterwards, as the keeper does it the other way round: one of them sees the other.
        """
        words = self._words
        words[_PAIRS + 2 * pair + 1] = now_ns
        words[_PAIRS + 2 * pair] = number
        if words[_TAKEN_TO] >= number >= words[_TAKEN_FROM]:
            words[_PAIRS + 2 * pair] = 0
            return False
        return True

    def finish(self, number: int, busy_ns: int) -> None:
        """Say that every task up to ``number`` is finished, and that all of them took ``busy_ns``."""
        self._words[_BUSY] = busy_ns
        self._words[_FINISHED] = number

    def leave(self, pair: int) -> None:
        """Say that nothing runs in ``pair``, though the tasks before it may not be finished."""
        self._words[_PAIRS + 2 * pair] = 0

    def end(self, number: int, took_ns: int) -> bool:
        """Say that task ``number`` has ended, before ``leave``; False when the keeper has not yet read what was said before."""
        words = self._words
        ended = words[_ENDED]
        if ended - words[_READ] >= _RING_TASKS:
            return False
        at = _RING + 2 * (ended % _RING_TASKS)
        words[at], words[at + 1] = number, took_ns
        words[_ENDED] = ended + 1
        return True

    @property
    def ended(self) -> int:
        """How many tasks were told of as ended that ``read_ended`` has not returned."""
        return self._words[_ENDED] - self._words[_READ]

    def is_sound(self, highest: int) -> bool:
        """Whether a runner that was fed tasks up to ``highest`` can have written this, and no handler scribbled on it."""
        return self.finished <= highest and self.ended <= _RING_TASKS

    def read_ended(self) -> list[tuple[int, float]]:
        """The tasks that were told of as ended since the last time, with their seconds."""
        words = self._words
        upto = words[_ENDED]
        places = (_RING + 2 * (n % _RING_TASKS) for n in range(words[_READ], upto))
        found = [(words[at], words[at + 1] / 1e9) for at in places]
        words[_READ] = upto
        return found

    def take(self, first: int, last: int) -> None:
        """Take back the tasks from ``first`` to ``last``: none of them may start."""
        self._words[_TAKEN_FROM] = first
        self._words[_TAKEN_TO] = last

    def call_off(self, number: int, pairs: int = 1) -> bool:
        """Say that somebody wants task ``number`` called off; False when it does not run."""
        for pair in range(pairs):
            if self._words[_PAIRS + 2 * pair] == number > self._words[_FINISHED]:
                self._words[_CALLED_OFF + pair] = number
                return True
        return False

    def called_off(self, pairs: int = 1) -> list[int]:
        """The tasks that were called off while they ran; of one that is over it may still stand here."""
        return [number for number in self._words[_CALLED_OFF : _CALLED_OFF + pairs] if number]

    @property
    def busy_seconds(self) -> float:
        """What all finished tasks took."""
        return self._words[_BUSY] / 1e9

    @property
    def finished(self) -> int:
        """How many tasks are finished."""
        return self._words[_FINISHED]

    def running(self, pairs: int = 1) -> list[tuple[int, int]]:
        """The tasks that run, with the times of their start (nanoseconds); the longest running first."""
        found = []
        for at in range(_PAIRS, _PAIRS + 2 * pairs, 2):
            number, started_at = 0, 0
            while number != self._words[at]:  # until both are of one task
                number, started_at = self._words[at], self._words[at + 1]
            if number > self._words[_FINISHED]:
                found.append((number, started_at))
        return sorted(found, key=lambda pair: pair[1])

    def close(self) -> None:
        """Let the page go."""
        self._words.release()
        self._map.close()
