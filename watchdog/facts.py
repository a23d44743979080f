"""What the database shows, gathered in one go: what is judged, and nothing that judges."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from math import inf
from typing import Any

from stoker.sql.database import Database
from stoker.watchdog.settings import WatchdogSettings


@dataclass(frozen=True, slots=True)
class Schedule:
    """A registered schedule: due times after ``since`` and ``decided_until`` are still to be decided."""

    schedule: str
    rule: dict[str, Any]
    since: datetime
    now: datetime
    decided_until: datetime | None
    is_paused: bool = False


@dataclass(frozen=True, slots=True)
class Unfinished:
    """A slot whose fire has not ended: seconds since it was due, and within how many it was to end."""

    schedule: str
    fire: int
    due_seconds: float
    finish_seconds: float


@dataclass(frozen=True, slots=True)
class Lane:
    """A lane's fires: seconds since one reached its note by itself; the active one, and how long it is over its deadline."""

    lane: str
    note_age: float | None
    active: int | None
    overdue: float | None


@dataclass(frozen=True, slots=True)
class Came:
    """What a lane's last fires came to, newest first: well, idle, hollow, failed.

    ``waits``: what the newest saw waiting can be claimed now. ``is_expected``: a schedule or stoker wrap has another come.
    """

    lane: str
    came_to: Sequence[str]
    waits: bool = True
    silent_seconds: float = 0.0
    is_expected: bool = False


@dataclass(frozen=True, slots=True)
class Beat:
    """One who was heard of, and how long (seconds) it has been silent; ``expected_seconds`` 0: it ended in order.

    ``along``: what else of its process went silent.
    """

    component: str
    instance: str
    began_at: datetime
    at: datetime
    expected_seconds: float
    beats: int
    silent_seconds: float
    along: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Undelivered:
    """A channel's notes that wait, or were given up; seconds since the oldest was written."""

    channel: str
    waiting: int
    dead: int
    oldest_seconds: float
    error: str | None


@dataclass(frozen=True, slots=True)
class Away:
    """The last time that the database could not be asked: how many seconds ago that began, and ended."""

    began: float
    ended: float

    def within(self, seconds: float) -> float:
        """How much of the last ``seconds`` it was away."""
        return max(min(seconds, self.began) - self.ended, 0.0)


@dataclass(frozen=True, slots=True)
class Facts:
    """What the database showed."""

    schedules: Sequence[Schedule] = ()
    unfinished: Sequence[Unfinished] = ()
    lanes: Sequence[Lane] = ()
    notes: Sequence[Came] = ()
    oldest: Sequence[tuple[str, float]] = ()
    beats: Sequence[Beat] = ()
    undelivered: Sequence[Undelivered] = ()
    gate: tuple[str, str, float] | None = None
    is_restored: bool = False
    born_seconds: float = 0.0
    opened_seconds: float = inf
    away: Away = Away(0.0, 0.0)
    expected: Sequence[tuple[str, float, float, bool]] = ()

    def due(self, seconds: float) -> float:
        """How much of the last ``seconds`` something could have been done: since the gate was opened, the database there."""
        counted = min(seconds, self.opened_seconds)
        return counted - self.away.within(counted)


def gather(database: Database, settings: WatchdogSettings, away: Away, me: str) -> Facts:
    """Ask for everything; ``me``, who looks, is not silent, however long its host slept.

    Raises DatabaseUnreachableError and StatementError.
    """
    run, rows = database.run, database.rows
    gate = next(((actor, reason, seconds) for actor, _, reason, seconds in run("look_gate")), None)
    ((born, opened),) = run("installed_for")
    ((_, _, is_restored, _),) = run("installation")
    return Facts(
        schedules=rows(Schedule, "watch_schedules", drill=None),
        unfinished=rows(Unfinished, "watch_slots"),
        lanes=rows(Lane, "watch_fires"),
        notes=rows(Came, "watch_notes", count=max(settings.hollow_fires, settings.idle_fires)),
        oldest=[(mode, age) for mode, age in run("watch_oldest")] if settings.oldest_task_seconds is not None else (),
        beats=[replace(one, silent_seconds=0.0) if one.instance == me else one for one in rows(Beat, "watch_heartbeats")],
        undelivered=rows(Undelivered, "watch_outbox"),
        gate=gate,
        is_restored=is_restored,
        born_seconds=born,
        opened_seconds=inf if opened is None else opened,
        expected=run("watch_expected"),
        away=away,
    )
