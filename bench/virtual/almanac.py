"""What is to happen in a stretch of time, drawn from a seed: schedules and their edits, breaks that are nobody's fault, misses.

A break tells nobody: a deploy, a pause with a reason, the gate, a short loss of the database. A longer loss is told as what it
is. A miss is a due time of which nothing had come when its grace was over, or a fire that did not end at its deadline.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise, takewhile
from typing import Any

from bench.virtual.clock import seconds
from stoker.orchestrator.settings import ScheduleSettings
from stoker.orchestrator.slots import rule_of, upcoming

FIRE_DEADLINE = timedelta(hours=1)
UNREACHABLE_AFTER = timedelta(minutes=2)
DEPLOY, PAUSE, GATE, REPAIRS, FLICKER, OUTAGE = "deploy", "pause", "gate", "repairs", "flicker", "outage"
NO_TRIGGER, HOST, HANGS, DARK = "trigger dead", "host dead", "fire hangs", "database away"
BUSY = "trigger dead, database flickers"
_SPACE = timedelta(minutes=75)
_OFTEN = {DEPLOY: 52, PAUSE: 26, GATE: 18, REPAIRS: 12, FLICKER: 40, OUTAGE: 20}
_LONGEST = {DEPLOY: 3, PAUSE: 3000, GATE: 600, REPAIRS: 240, FLICKER: 1.5, OUTAGE: 8}
_SHARES = {NO_TRIGGER: 60, HOST: 15, HANGS: 15, DARK: 5, BUSY: 5}

# Of each schedule what it is called, where, how it is due, and how after some edit.
SCHEDULES: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"name": "berlin-night", "timezone": "Europe/Berlin", "cron": "30 2 * * *"}, {"cron": "15 2 * * *"}),
    ({"name": "berlin-day", "timezone": "Europe/Berlin", "cron": "0 0 * * mon-fri", "lane": "main"}, {"cron": "0 4 * * *"}),
    ({"name": "york", "timezone": "America/New_York", "cron": "30 1,7,19 * * *", "missed": "skip"}, {"cron": "0 2,8 * * *"}),
    ({"name": "sydney", "timezone": "Australia/Sydney", "cron": "0 8-19 * * 1-6", "grace": "15m"}, {"cron": "5 8-19 * * *"}),
    ({"name": "howe", "timezone": "Australia/Lord_Howe", "cron": "15,45 2 * * *"}, {"cron": "45 1,2,3 * * *"}),
    ({"name": "interval", "every": "6h", "lane": "main", "grace": "20m"}, {"every": "4h"}),
    ({"name": "month", "cron": "0 12 1,15 * *", "missed": "all(max=3)", "grace": "30m"}, {"cron": "0 6 1,10,20 * *"}),
]


@dataclass(frozen=True, slots=True)
class Break:
    """Something between two instants; ``schedule`` is the one that is paused, or edited."""

    kind: str
    start: datetime
    end: datetime
    schedule: str


@dataclass(frozen=True, slots=True)
class Miss:
    """A planted miss, made good at ``end``: from ``base`` on somebody is to be told of ``cause``."""

    kind: str
    schedule: str
    due: datetime
    start: datetime
    base: datetime
    end: datetime
    cause: str


@dataclass(frozen=True, slots=True)
class Almanac:
    """Everything. ``edits``: by schedule, from when on it is which; the first is there from the start."""

    start: datetime
    end: datetime
    edits: dict[str, list[tuple[datetime, ScheduleSettings]]]
    breaks: list[Break]
    misses: list[Miss]

    def at(self, schedule: str, instant: datetime) -> ScheduleSettings:
        """A schedule as it is configured then."""
        return [settings for since, settings in self.edits[schedule] if since <= instant][-1]

    def dues(self, schedule: str) -> Iterator[datetime]:
        """Its due times."""
        ends = [since for since, _ in self.edits[schedule][1:]] + [self.end]
        for (since, settings), until in zip(self.edits[schedule], ends, strict=True):
            yield from takewhile(lambda due, until=until: due < until, upcoming(rule_of(settings), since))  # type: ignore[misc]


def draw(start: datetime, days: float, planted: int, seed: int) -> Almanac:
    """Draw it."""
    dice = random.Random(seed)
    end = start + timedelta(days=days)
    taken: list[tuple[datetime, datetime]] = [(start, start + timedelta(hours=6))]
    kinds = [kind for kind, a_year in _OFTEN.items() for _ in range(max(1, round(a_year * days / 365)))]
    breaks = [_break(dice, kind, start, end, taken) for kind in kinds]
    almanac = Almanac(start, end, _edits(start, breaks), sorted(breaks, key=lambda one: one.start), [])
    dues = [(due, name) for name in almanac.edits for due in almanac.dues(name)]
    kinds = dice.choices(list(_SHARES), list(_SHARES.values()), k=planted)
    for number, kind in enumerate(kinds):
        almanac.misses.append(_miss(dice, kind if number >= len(_SHARES) else list(_SHARES)[number], almanac, dues, taken))
    almanac.misses.sort(key=lambda one: one.start)
    return almanac


def _break(dice: random.Random, kind: str, start: datetime, end: datetime, taken: list[tuple[datetime, datetime]]) -> Break:
    least = {FLICKER: 5.0, OUTAGE: 180.0}.get(kind, 60.0)
    while True:
        lasts = seconds(dice.uniform(least, 60 * min(_LONGEST[kind], (end - start) / timedelta(minutes=20))))
        at = start + (end - start) * dice.random()
        if _is_free(at, at + lasts, end, taken):
            taken.append((at, at + lasts))
            return Break(kind, at, at + lasts, dice.choice(SCHEDULES)[0]["name"])


def _edits(start: datetime, breaks: list[Break]) -> dict[str, list[tuple[datetime, ScheduleSettings]]]:
    """Every deploy edits one schedule, there and back again."""
    found = {}
    for keys, other in SCHEDULES:
        own = {"lane": keys["name"], **keys}
        moments = [start, *sorted(one.start for one in breaks if one.kind == DEPLOY and one.schedule == keys["name"])]
        forms = [ScheduleSettings.of(own), ScheduleSettings.of({**own, **other})]
        found[keys["name"]] = [(moment, forms[number % 2]) for number, moment in enumerate(moments)]
    return found


def _miss(
    dice: random.Random, kind: str, almanac: Almanac, dues: list[tuple[datetime, str]], taken: list[tuple[datetime, datetime]]
) -> Miss:
    while True:
        due, name = dice.choice(dues)
        settings = almanac.at(name, due)
        start = due - seconds(dice.uniform(1, 50))
        base, cause = due + seconds(settings.grace_seconds), f"slot {name}"
        if kind == HANGS:
            base, cause = due + FIRE_DEADLINE, f"deadline {settings.lane}"
        if kind == DARK:
            base, cause = start + UNREACHABLE_AFTER, "database"
        least = max(base, due + seconds(settings.grace_seconds)) + seconds(150)
        end = least + seconds(60 * dice.choice([0, 1, 10, 60, 240]) * dice.random())
        if kind == HANGS and settings.lane == "main":
            continue
        if _is_free(start, end, almanac.end, taken):
            taken.append((start, end))
            return Miss(kind, name, due, start, base, end, cause)


def _is_free(start: datetime, end: datetime, last: datetime, taken: list[tuple[datetime, datetime]]) -> bool:
    if end + _SPACE > last:
        return False
    return all(end + _SPACE < other or until + _SPACE < start for other, until in taken)


def changes_of_clocks(almanac: Almanac) -> int:
    """How often a zone's clocks are changed."""
    from zoneinfo import ZoneInfo

    count = 0
    for zone in {settings.timezone for edits in almanac.edits.values() for _, settings in edits}:
        days = [almanac.start + timedelta(days=n) for n in range((almanac.end - almanac.start).days + 1)]
        offsets = [day.astimezone(UTC).astimezone(ZoneInfo(zone)).utcoffset() for day in days]
        count += sum(before != after for before, after in pairwise(offsets))
    return count
