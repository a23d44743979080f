"""What of a standing process goes on: its own pulse, and the heartbeats that it writes of its loops."""

import time

from stoker.orchestrator.tell import instance, told
from stoker.sql.database import Database
from stoker.worker.redact import bounded


class Pulse:
    """What of this process beat when, by monotonic time, and how long after it is late (seconds)."""

    def __init__(self) -> None:
        self._beats: dict[str, tuple[float, float]] = {}

    def beat(self, name: str, expected_seconds: float) -> None:
        """It goes on."""
        self._beats[name] = time.monotonic(), expected_seconds

    def late(self) -> dict[str, float]:
        """Those that are late, with the seconds since they beat."""
        now = time.monotonic()
        return {name: now - at for name, (at, expected) in self._beats.items() if now - at > expected}

    @property
    def names(self) -> list[str]:
        """All that ever beat."""
        return sorted(self._beats)


def beat(database: Database, component: str, expected_seconds: float, failures: int = 0, error: str | None = None) -> bool:
    """Tell the database, also of batches in a row that failed; False when it could not be told, which breaks nothing."""
    facts = {"component": component, "instance": instance(), "expected": expected_seconds, "failures": failures}
    return told(component, lambda: database.run("beat_loop", error=None if error is None else bounded(error, 500), **facts))
