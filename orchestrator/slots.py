"""What becomes of due times: each is a slot, which ran, was skipped for a reason, or was missed.

Which slot is to be decided is derived anew each time, under a lock on its schedule, from the rule as it is registered and
the last slot that was decided. So of several who come at once one decides, and the others find nothing left.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice, takewhile
from typing import Any
from zoneinfo import ZoneInfo

from stoker.orchestrator.holder import named
from stoker.orchestrator.settings import ScheduleSettings
from stoker.sql.database import Database, Transaction
from stoker.sql.due import due_after, due_before
from stoker.sql.due import rule as parsed

RAN, SKIPPED, MISSED = "ran", "skipped", "missed"
Rule = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Due:
    """A slot that is to be decided now, and the missed ones before it, as their first and last due times.

    With a ``reason`` it is not to be decided, but is the last of those missed. ``seen_at`` is when this was found, by the
    database's clock; ``is_last``: nothing is due after it. ``held``: who has paused the schedule, and why.
    """

    schedule: str
    at: datetime
    seen_at: datetime
    is_last: bool
    missed: tuple[datetime, datetime] | None = None
    reason: str = ""
    held: str = ""


@dataclass(frozen=True, slots=True)
class Registered:
    """A schedule as the database knows it."""

    rule: Rule
    since: datetime
    now: datetime
    decided_until: datetime | None
    paused_by: str | None = None
    pause_reason: str | None = None

    def pending(self) -> Iterator[datetime]:
        """The due times that nothing was decided of, the newest first."""
        after = max(self.since, self.decided_until or self.since)
        return takewhile(lambda instant: instant > after, _back(self.rule, self.now))


def rule_of(schedule: ScheduleSettings) -> Rule:
    """What due times are derived from, by everybody; and how late (seconds) a fire may begin, and end, untold."""
    every = None if schedule.every_seconds is None else int(schedule.every_seconds)
    late = {"grace": schedule.grace_seconds, "finish": schedule.finish_within_seconds}
    return {"cron": schedule.cron or None, "every": every, "timezone": schedule.timezone, **late}


def upcoming(rule: Rule, after: datetime) -> Iterator[datetime]:
    """The due times to come, without end."""
    return due_after(parsed(rule), ZoneInfo(rule["timezone"]), after)


def register(database: Database, schedule: ScheduleSettings) -> None:
    """Let the database know a schedule that is new; what is due is counted from now on."""
    database.run("register_schedule", schedule=schedule.name, rule=json.dumps(rule_of(schedule)))


def may_be_due(database: Database, schedule: ScheduleSettings) -> bool:
    """Whether a slot is to be decided, or the schedule was edited: looked at without a lock, so ``take`` looks again."""
    with named(database):
        register(database, schedule)
    (seen,) = database.rows(Registered, "look_schedule", schedule=schedule.name)
    return seen.rule != rule_of(schedule) or next(seen.pending(), None) is not None


def until_next(database: Database, schedule: ScheduleSettings) -> float:
    """Seconds until the schedule is due the next time, by the database's clock."""
    ((now,),) = database.run("clock")
    due = next(upcoming(rule_of(schedule), now))
    return float((due - now).total_seconds())


def paused(database: Database) -> dict[str, str]:
    """The schedules that people hold: who, since when, and why, in words."""
    rows = database.run("list_paused_schedules")
    return {name: f"paused by {by} since {since:%Y-%m-%d %H:%M}: {reason}" for name, by, since, reason in rows}


def take(tx: Transaction, schedule: ScheduleSettings) -> Due | None:
    """The slot to be decided now, if any, its schedule locked. It is due by the rule that held till now.

    Due times that come too late by the schedule's policy are written as missed here; those before the one returned are for
    ``decide`` to write. An edited rule holds from the moment on when nothing is left of the old one.
    """
    tx.run("lock_schedule", schedule=schedule.name)
    (seen,) = tx.rows(Registered, "look_schedule", schedule=schedule.name)
    due = _chosen(seen, schedule)
    if due is not None and due.reason:
        _write_missed(tx, due, due.reason)
        due = None
    if due is None:
        _edit(tx, schedule, seen.now)
    elif seen.paused_by is not None:
        due = replace(due, held=f"paused by {seen.paused_by}: {seen.pause_reason}")
    return due


def decide(tx: Transaction, due: Due, schedule: ScheduleSettings, *, fire: int, refusal: str | None) -> None:
    """Write what became of the slot, in the transaction that opened its fire or refused it."""
    if due.is_last:
        _edit(tx, schedule, due.seen_at)
    if due.missed is not None:
        _write_missed(tx, due, "a later one was made good")
    state, reason, number = (SKIPPED, refusal, None) if refusal else (RAN, None, fire)
    tx.run("write_slot", schedule=due.schedule, due_at=due.at, last_due_at=due.at, state=state, reason=reason, fire=number)


def _chosen(seen: Registered, schedule: ScheduleSettings) -> Due | None:
    newest = list(islice(seen.pending(), schedule.most_missed + 1))
    if not newest:
        return None
    late = (seen.now - newest[0]).total_seconds()
    if schedule.missed == "skip" and late > schedule.grace_seconds:
        return Due(schedule.name, newest[0], seen.now, True, (_oldest(seen), newest[0]), f"late by {late:.0f} s")
    missed = (_oldest(seen), newest.pop()) if len(newest) > schedule.most_missed else None
    return Due(schedule.name, newest[-1], seen.now, len(newest) == 1, missed)


def _oldest(seen: Registered) -> datetime:
    return next(upcoming(seen.rule, max(seen.since, seen.decided_until or seen.since)))


def _edit(tx: Transaction, schedule: ScheduleSettings, since: datetime) -> None:
    tx.run("edit_schedule", schedule=schedule.name, rule=json.dumps(rule_of(schedule)), since=since)


def _write_missed(tx: Transaction, due: Due, reason: str) -> None:
    if due.missed is None:
        raise AssertionError("there is nothing that was missed")
    first, last = due.missed
    tx.run("write_slot", schedule=due.schedule, due_at=first, last_due_at=last, state=MISSED, reason=reason, fire=None)


def _back(rule: Rule, until: datetime) -> Iterator[datetime]:
    return due_before(parsed(rule), ZoneInfo(rule["timezone"]), until)
