"""How many tasks to take next, and from where on: batches by time, span rows by need, the mark.

The mark is the last place claimed from; claims go on after it, so that dead index entries at the head are not read
again. It is rewound every second, so that urgent tasks and retries are seen.
"""

from dataclasses import dataclass

BEFORE_ALL = (-(2**31) - 1, -1)
_REWIND_SECONDS = 1.0
_GROWTH = 4
_MAX_BATCH_BYTES = 8 * 1024 * 1024
_CHUNK_BYTES = 1024 * 1024
_CHUNK_TASKS = 125
_TEXT_LIMIT_BYTES = 1 << 29


@dataclass(slots=True)
class Pace:
    """Learns one task's time and size from what was done. Times in seconds of the monotonic clock."""

    batch_time: float
    batch_limit: int
    expected: float | None
    payload_limit: int = 1 << 20
    batch: int = 1
    locks: int = 4
    mark: tuple[int, int] = BEFORE_ALL
    rewound_at: float = 0.0
    _seconds: float | None = None
    _bytes: float = 0.0

    def __post_init__(self) -> None:
        self._seconds = self.expected
        if self.expected is not None:
            self.batch = self._fitting()

    def learn(self, tasks: int, seconds: float) -> None:
        """``tasks`` took ``seconds`` in all."""
        if not tasks:
            return
        each = seconds / tasks
        self._seconds = each if self._seconds is None else 0.5 * self._seconds + 0.5 * each
        self.batch = min(self._fitting(), max(self.batch, 1) * _GROWTH)

    def _fitting(self) -> int:
        by_time = self.batch_time / max(self._seconds or 0.0, 1e-7)
        by_size = _MAX_BATCH_BYTES / max(self._bytes, 1.0)
        return int(max(1, min(by_time, by_size, self.batch_limit)))

    @property
    def chunk(self) -> int:
        """How many payloads to read as one text: about a mebibyte of them, and never so many that no text could hold them."""
        most = min(_CHUNK_TASKS, _TEXT_LIMIT_BYTES // self.payload_limit)
        return int(max(1, min(_CHUNK_BYTES / max(self._bytes, 1.0), most)))

    def saw(self, *, rows: int, tasks: int, asked: int, last: tuple[int, int] | None, size: int = 0) -> None:
        """A claim of ``asked`` tasks found ``tasks`` in ``rows`` spans, the last at ``last``, ``size`` bytes in all."""
        if tasks:
            self._bytes = max(size / tasks, 0.8 * self._bytes)
            self.batch = min(self.batch, self._fitting())
        self.locks = max(2, min(self.batch_limit, rows * 4 if tasks < asked else rows + rows // 8))
        self.mark = last if last is not None and tasks >= asked else BEFORE_ALL

    def rewind_if_due(self, now: float) -> None:
        """Once a second the mark goes back to the head."""
        if now - self.rewound_at >= _REWIND_SECONDS:
            self.rewound_at = now
            self.mark = BEFORE_ALL
