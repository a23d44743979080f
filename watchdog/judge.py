"""What did not happen: a pure function from what the database shows to findings, each with a stable cause.

Outcomes are judged, not signs of life: a due time without a slot, a fire that does not end, fires that do nothing while work
waits, a queue that nobody empties, a gate that was forgotten. Signs of life are judged besides (silence.py): they tell sooner.
While the database was away nobody could decide, end or be heard: that time is taken off whatever is late.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC
from zoneinfo import ZoneInfo

from stoker.sql.due import due_after, rule
from stoker.sql.units import format_duration
from stoker.watchdog.facts import Beat, Came, Facts, Schedule
from stoker.watchdog.settings import WatchdogSettings
from stoker.watchdog.silence import missed

IDLE, WELL, FAILED = "idle", "well", "failed"
_SHOWN = 3
_FORGOTTEN_SECONDS = 26 * 3600.0  # a day, also the one of 25 hours, and time to do it: who fires daily is not forgotten


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong: its cause names it for good, its words tell it today."""

    cause: str
    words: str


def judge(facts: Facts, settings: WatchdogSettings) -> list[Finding]:
    """Everything that is wrong now.

    While the gate is closed nothing is expected, but that it is opened again; of a dump only that somebody says what it is.
    """
    if facts.is_restored:
        return [
            Finding("restored", "This database was loaded from a dump, and nothing fires until somebody runs: stoker restored")
        ]
    if facts.gate is not None:
        return list(_gate(facts.gate, settings))
    return [
        *_slots(facts),
        *_finish(facts),
        *_interval(facts, settings),
        *_expected(facts, settings),
        *_fires(facts),
        *_hollow(facts, settings),
        *_queue(facts, settings),
        *_outbox(facts, settings),
        *_silence(facts),
    ]


def _slots(facts: Facts) -> Iterator[Finding]:
    for one in facts.schedules:
        if one.is_paused:
            continue
        try:
            found = _slot(one, facts)
        except (ValueError, KeyError, TypeError) as error:
            why = f"Schedule {one.schedule} cannot be judged on this host: {type(error).__name__}. Is its time zone known here?"
            found = Finding(f"slot {one.schedule}", why)
        if found is not None:
            yield found


def _slot(one: Schedule, facts: Facts) -> Finding | None:
    zone = ZoneInfo(one.rule["timezone"])
    due = next(due_after(rule(one.rule), zone, max(one.since, one.decided_until or one.since)))
    late = (one.now - due).total_seconds()
    if facts.due(late) <= one.rule["grace"]:
        return None
    at = due.astimezone(zone).strftime("%Y-%m-%d %H:%M:%S %Z")
    never = "It never started. " if one.decided_until is None else ""
    return Finding(
        f"slot {one.schedule}",
        f"Schedule {one.schedule} did not fire: due {at}, {format_duration(round(late))} ago, and nothing happened."
        f" {never}Is stoker run, or cron, running? If it was taken out of config.toml: stoker slots forget {one.schedule}",
    )


def _finish(facts: Facts) -> Iterator[Finding]:
    for one in facts.unfinished:
        if one.due_seconds - facts.away.within(one.due_seconds) > one.finish_seconds:
            due = (
                f"it was due {format_duration(round(one.due_seconds))} ago, to end within {format_duration(one.finish_seconds)}"
            )
            words = f"Fire {one.fire} of schedule {one.schedule} has not ended: {due}. See: stoker fires show {one.fire}"
            yield Finding(f"finish {one.schedule}", words)


def _interval(facts: Facts, settings: WatchdogSettings) -> Iterator[Finding]:
    if settings.expected_interval_seconds is None:
        return
    age = next((lane.note_age for lane in facts.lanes if lane.lane == settings.lane), None)
    silent = facts.born_seconds if age is None else age
    if facts.due(silent) > settings.expected_interval_seconds + settings.grace_seconds:
        since = "none ever was" if age is None else f"the last was {format_duration(round(age))} ago"
        yield Finding(
            f"interval {settings.lane}",
            f"Orchestrator did not fire. The fleet is dark. Lane {settings.lane}: a fire is expected every"
            f" {format_duration(settings.expected_interval_seconds)}; {since}.",
        )


def _expected(facts: Facts, settings: WatchdogSettings) -> Iterator[Finding]:
    """Lanes of which ``stoker wrap`` said how often: (lane, seconds, for how long there was silence, whether it ever ran)."""
    for lane, seconds, silent, ever in facts.expected:
        if facts.due(silent) > seconds + settings.grace_seconds:
            ago = format_duration(round(silent))
            last = f"it last ended {ago} ago" if ever else f"it has not since that was said, {ago} ago"
            words = f"{lane} did not run: it is expected every {format_duration(seconds)}, and {last}. Is cron running?"
            yield Finding(f"expected {lane}", words)


def _fires(facts: Facts) -> Iterator[Finding]:
    for lane in facts.lanes:
        overdue = lane.overdue or 0.0
        if lane.active is not None and overdue - facts.away.within(overdue) > 0.0:
            over = format_duration(round(overdue))
            yield Finding(
                f"deadline {lane.lane}",
                f"Fire {lane.active} of lane {lane.lane} is {over} over its deadline and has not ended. See: stoker status",
            )


def _hollow(facts: Facts, settings: WatchdogSettings) -> Iterator[Finding]:
    """One that started nobody is another thing than one whose workers did nothing: of the two the newer one is told.

    It is over when nothing of it waits any more, and, of a lane that nobody expects a fire of, a day after the last one.
    """
    idle, hollow = settings.idle_fires, settings.hollow_fires
    for one in facts.notes:
        lane, came_to = one.lane, one.came_to
        if not _is_standing(one, settings):
            continue
        if len(came_to) >= idle and set(came_to[:idle]) == {IDLE}:
            last = f"The last {idle} fires" if idle > 1 else "The last fire"
            words = (
                f"{last} of lane {lane} started no worker though tasks could be claimed. Do limits allow any? See: stoker plan"
            )
            yield Finding(f"idle {lane}", words)
        elif len(came_to) >= hollow and WELL not in came_to[:hollow]:
            words = f"The last {hollow} fires of lane {lane} did nothing while work was waiting, or failed at all of it."
            yield Finding(f"hollow {lane}", f"{words} See: stoker note")


def _is_standing(one: Came, settings: WatchdogSettings) -> bool:
    """Whether what a lane's last fires came to is of concern today."""
    is_expected = one.is_expected or (one.lane == settings.lane and settings.expected_interval_seconds is not None)
    is_recent = is_expected or one.silent_seconds <= _FORGOTTEN_SECONDS
    return is_recent and (one.waits or one.came_to[0] == FAILED)


def _queue(facts: Facts, settings: WatchdogSettings) -> Iterator[Finding]:
    limit = settings.oldest_task_seconds
    for mode, age in facts.oldest:
        if limit is not None and facts.due(age) > limit:
            yield Finding(
                f"oldest {mode}",
                f"The oldest claimable task of mode {mode} has waited for {format_duration(round(age))}, longer than"
                f" {format_duration(limit)}. See: stoker plan",
            )


def _outbox(facts: Facts, settings: WatchdogSettings) -> Iterator[Finding]:
    limit = settings.undelivered_after_seconds
    for one in facts.undelivered:
        if limit is not None and facts.due(one.oldest_seconds) > limit:
            counts = ((one.waiting, "wait"), (one.dead, "were given up"))
            words = ", ".join(f"{count:,} {what}" for count, what in counts if count)
            words += f", the oldest for {format_duration(round(one.oldest_seconds))}."
            words += f" Last: {one.error}." if one.error else ""
            yield Finding(f"undelivered {one.channel}", f"Notes do not reach channel {one.channel}: {words} See: stoker outbox")


def _silence(facts: Facts) -> Iterator[Finding]:
    for component, silent in missed(facts.beats, facts.away).items():
        shown = "; ".join(_last_heard(one) for one in silent[:_SHOWN])
        more = f"; and {len(silent) - _SHOWN:,} more" if len(silent) > _SHOWN else ""
        yield Finding(
            f"heartbeat {component}",
            f"Nothing is heard of {component} any more: {shown}{more}. Was it killed, or does it hang? See: stoker ready",
        )


def _last_heard(one: Beat) -> str:
    at = one.at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    along = f", and with it {', '.join(one.along)}" if one.along else ""
    return f"{one.instance} since {at}, expected every {format_duration(round(one.expected_seconds, 3))}{along}"


def _gate(gate: tuple[str, str, float], settings: WatchdogSettings) -> Iterator[Finding]:
    actor, reason, seconds = gate
    if settings.gate_reminder_seconds is not None and seconds > settings.gate_reminder_seconds:
        yield Finding(
            "gate",
            f"The gate has been closed for {format_duration(round(seconds))} by {actor}: {reason}."
            " To open it: stoker gate open",
        )
