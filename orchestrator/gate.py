"""What is said of a gate that was closed and forgotten, by those whom people ask; the watchdog pages beside it."""

from stoker.orchestrator.config import Config
from stoker.sql.database import Database
from stoker.sql.units import format_duration

_UNITS = (86_400, 3_600, 60, 1)


def gate_words(database: Database, config: Config) -> tuple[str | None, bool]:
    """That it is closed, and by whom, and whether for longer than ``watchdog.gate_reminder``; None: it is open."""
    limit = config.watchdog.gate_reminder_seconds
    for actor, _, reason, seconds in database.run("look_gate"):
        if limit is None or seconds <= limit:
            return f"the gate is closed by {actor}: {reason}", False
        return f"the gate has been closed for {_roughly(seconds)} by {actor}: {reason}; to open: stoker gate open", True
    return None, False


def _roughly(seconds: float) -> str:
    """``3d`` and not ``3d4h12m7s``."""
    unit = next((unit for unit in _UNITS if seconds >= unit), 1)
    return format_duration(int(seconds // unit) * unit)
