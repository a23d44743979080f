"""What a person sees while a fire runs: one line that is redrawn on a terminal, a line now and then elsewhere."""

import contextlib
import sys
import time
from dataclasses import dataclass, field

from stoker.sql.database import Database

_QUIET_SECONDS = 10.0


@dataclass(slots=True)
class Progress:
    """Shows one fire. ``total`` is the backlog of its plan."""

    database: Database
    fire: int
    total: int
    is_terminal: bool = field(default_factory=lambda: sys.stderr.isatty())
    _started: float = field(default_factory=time.monotonic)
    _shown_at: float = 0.0
    _width: int = 0

    def tick(self) -> None:
        """Look, and show what has changed."""
        now = time.monotonic()
        if not self.is_terminal and now - max(self._shown_at, self._started) < _QUIET_SECONDS:
            return
        ((done, failed, retried, living, workers),) = self.database.run("live_progress", fire=self.fire)
        line = (
            f"fire {self.fire}: {done:,} done, {failed:,} failed, {retried:,} retried of {self.total:,};"
            f" {living} of {workers} workers at work; {now - self._started:.0f} s"
        )
        self._shown_at = now
        if self.is_terminal:
            _write("\r" + line.ljust(self._width))
            self._width = len(line)
        else:
            _write(line + "\n")

    def clear(self) -> None:
        """Take the line away."""
        if self.is_terminal and self._width:
            _write("\r" + " " * self._width + "\r")
            self._width = 0


def _write(text: str) -> None:
    """Write to standard error; that nobody reads it any more is no reason to end a fire."""
    with contextlib.suppress(OSError):
        sys.stderr.write(text)
        sys.stderr.flush()
