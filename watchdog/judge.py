"""What did not happen: a pure function from what the database shows to findings, each with a stable cause.

Outcomes are judged, not signs of life: a due time without a slot, a fire that does not end, fires that do nothing while work
waits, a queue that nobody empties, a gate that was forgotten.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from stoker.sql.due import due_after, rule
from stoker.sql.units import format_duration
from stoker.watchdog.settings import WatchdogSettings


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong: its cause names it for good, its words tell it today."""

    cause: str
    words: str


@dataclass(frozen=True, slots=True)
class Schedule:
    """A registered schedule: due times after ``since`` and ``decided_until`` are still to be decided."""

    schedule: str
    rule: dict[str, Any]
    since: datetime
    now: datetime
    decided_until: datetime | None


@dataclass(frozen=True, slots=True)
class Lane:
    """A lane's fires: seconds since one reached its note; the one that is active, and how long it is over its deadline."""

    lane: str
    note_age: float | None
    active: int | None
    overdue: float | None


@dataclass(frozen=True, slots=True)
class Facts:
    """What the database showed. ``hollow``: of each lane, whether its last fires did nothing while work waited."""

    schedules: Sequence[Schedule] = ()
    lanes: Sequence[Lane] = ()
    hollow: Sequence[tuple[str, list[bool]]] = ()
    oldest: Sequence[tuple[str, float]] = ()
    gate: tuple[str, str, float] | None = None
    born_seconds: float = field(default=0.0)
    expected: Sequence[tuple[str, float, float, bool]] = ()


def judge(facts: Facts, settings: WatchdogSettings) -> list[Finding]:
    """Everything that is wrong now. While the gate is closed nothing is expected, but that it is opened again."""
    if facts.gate is not None:
        return list(_gate(facts.gate, settings))
    return [
        *_slots(facts),
        *_interval(facts, settings),
        *_expected(facts, settings),
        *_fires(facts),
        *_hollow(facts, settings),
        *_queue(facts, settings),
    ]


def _slots(facts: Facts) -> Iterator[Finding]:
    for one in facts.schedules:
        zone = ZoneInfo(one.rule["timezone"])
        due = next(due_after(rule(one.rule), zone, max(one.since, one.decided_until or one.since)))
        late = (one.now - due).total_seconds()
        if late > one.rule["grace"]:
            at = due.astimezone(zone).strftime("%Y-%m-%d %H:%M:%S %Z")
            never = "It never has. " if one.decided_until is None else ""
            yield Finding(
                f"slot {one.schedule}",
                f"Schedule {one.schedule} did not fire: due {at}, {format_duration(round(late))} ago, and nothing happened."
                f" {never}Is stoker run, or cron, running?",
            )


def _interval(facts: Facts, settings: WatchdogSettings) -> Iterator[Finding]:
    if settings.expected_interval_seconds is None:
        return
    age = next((lane.note_age for lane in facts.lanes if lane.lane == settings.lane), None)
    silent = facts.born_seconds if age is None else age
    if silent > settings.expected_interval_seconds + settings.grace_seconds:
        since = "none ever was" if age is None else f"the last was {format_duration(round(age))} ago"
        yield Finding(
            f"interval {settings.lane}",
            f"Orchestrator did not fire. The fleet is dark. Lane {settings.lane}: a fire is expected every"
            f" {format_duration(settings.expected_interval_seconds)}; {since}.",
        )


def _expected(facts: Facts, settings: WatchdogSettings) -> Iterator[Finding]:
    """Lanes of which ``stoker wrap`` said how often: (lane, seconds, for how long there was silence, whether it ever ran)."""
    for lane, seconds, silent, ever in facts.expected:
        if silent > seconds + settings.grace_seconds:
            ago = format_duration(round(silent))
            last = f"it last ended {ago} ago" if ever else f"it has not since that was said, {ago} ago"
            words = f"{lane} did not run: it is expected every {format_duration(seconds)}, and {last}. Is cron running?"
            yield Finding(f"expected {lane}", words)


def _fires(facts: Facts) -> Iterator[Finding]:
    for lane in facts.lanes:
        if lane.active is not None and (lane.overdue or 0.0) > 0.0:
            over = format_duration(round(lane.overdue or 0.0))
            yield Finding(
                f"deadline {lane.lane}",
                f"Fire {lane.active} of lane {lane.lane} is {over} over its deadline and has not ended. See: stoker status",
            )


def _hollow(facts: Facts, settings: WatchdogSettings) -> Iterator[Finding]:
    for lane, notes in facts.hollow:
        if len(notes) >= settings.hollow_fires and all(notes[: settings.hollow_fires]):
            yield Finding(
                f"hollow {lane}",
                f"The last {settings.hollow_fires} fires of lane {lane} did nothing while work was waiting. See: stoker note",
            )


def _queue(facts: Facts, settings: WatchdogSettings) -> Iterator[Finding]:
    limit = settings.oldest_task_seconds
    for mode, age in facts.oldest:
        if limit is not None and age > limit:
            yield Finding(
                f"oldest {mode}",
                f"The oldest claimable task of mode {mode} has waited for {format_duration(round(age))}, longer than"
                f" {format_duration(limit)}. See: stoker plan",
            )


def _gate(gate: tuple[str, str, float], settings: WatchdogSettings) -> Iterator[Finding]:
    actor, reason, seconds = gate
    if settings.gate_reminder_seconds is not None and seconds > settings.gate_reminder_seconds:
        yield Finding(
            "gate",
            f"The gate has been closed for {format_duration(round(seconds))} by {actor}: {reason}."
            " To open it: stoker gate open",
        )
