"""When a schedule is due: pure functions from an expression, a time zone and two instants to instants in UTC.

Nothing is kept that moves on by itself: every process derives the same due times. A cron expression has five fields
(minute, hour, day of the month, month, day of the week), lists, ranges, steps, names, and ``@daily`` and its like; when
both days are restricted, either matches.

When clocks change, an expression that names every hour follows the clock on the wall of each hour that there is: 23 or 25
times a day. One that names hours happens once for each time it names: at the first of two, and when there is none, as
much later as the clocks were put forward.
"""

import calendar
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from itertools import product
from typing import Any
from zoneinfo import ZoneInfo

_MACROS = {
    "@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *", "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@hourly": "0 * * * *",
}  # fmt: skip
_MONTHS = {name.lower(): number for number, name in enumerate(calendar.month_abbr) if name}
_DAYS = {"sun": 0, "mon": 1, "tue": 2, "wed": 3, "thu": 4, "fri": 5, "sat": 6}
_PART = re.compile(r"(?:(\*)|(\w+)(?:-(\w+))?)(?:/(\d+))?")
_DAY = timedelta(days=1)


class ScheduleError(ValueError):
    """An expression that names no time; the text says what is wrong with it."""


@dataclass(frozen=True, slots=True)
class Cron:
    """A parsed expression. ``days`` and ``weekdays`` are None when they are not restricted; a week begins on Sunday, 0."""

    text: str
    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: frozenset[int] | None
    months: frozenset[int]
    weekdays: frozenset[int] | None

    @staticmethod
    def parse(text: str) -> "Cron":
        """Raises ScheduleError, also for a date that never comes, such as 31 February."""
        fields = _MACROS.get(text.strip().lower(), text).split()
        if len(fields) != 5:
            raise ScheduleError(f'{text!r} is no cron expression: five fields, such as "0 7 * * mon-fri", or @daily')
        minute, hour, day, month, weekday = fields
        cron = Cron(
            text,
            tuple(sorted(_field("minute", minute, 0, 59, {}))),
            tuple(sorted(_field("hour", hour, 0, 23, {}))),
            None if day in "*?" else frozenset(_field("day of the month", day, 1, 31, {})),
            frozenset(_field("month", month, 1, 12, _MONTHS)),
            None if weekday in "*?" else frozenset(number % 7 for number in _field("day of the week", weekday, 0, 7, _DAYS)),
        )
        longest = max(calendar.monthrange(2024, number)[1] for number in cron.months)
        if cron.days is not None and cron.weekdays is None and min(cron.days) > longest:
            raise ScheduleError(f"{text!r} names a day that its months do not have")
        return cron

    def falls_on(self, day: date) -> bool:
        """Whether it names times on this day."""
        if day.month not in self.months:
            return False
        by_date = self.days is None or day.day in self.days
        by_weekday = self.weekdays is None or day.isoweekday() % 7 in self.weekdays
        return by_date or by_weekday if self.days is not None and self.weekdays is not None else by_date and by_weekday

    def instants(self, day: date, zone: ZoneInfo) -> list[datetime]:
        """The instants, in UTC, of the times that it names on this day of the zone's calendar, in order."""
        if not self.falls_on(day):
            return []
        walls = [datetime(day.year, day.month, day.day, hour, minute) for hour, minute in product(self.hours, self.minutes)]
        midnight = datetime(day.year, day.month, day.day, tzinfo=zone)
        offsets = {at.replace(fold=fold).utcoffset() for at in (midnight, midnight + _DAY) for fold in (0, 1)}
        offset = offsets.pop()
        if not offsets and offset is not None:
            return [(wall - offset).replace(tzinfo=UTC) for wall in walls]
        found = {instant for wall in walls for instant in self._around_a_change(wall, zone)}
        return sorted(found)

    def _around_a_change(self, wall: datetime, zone: ZoneInfo) -> Iterator[datetime]:
        first, second = (wall.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1))
        is_there = first.astimezone(zone).replace(tzinfo=None) == wall
        if len(self.hours) < 24 or is_there:
            yield first
        if len(self.hours) == 24 and is_there:
            yield second


@dataclass(frozen=True, slots=True)
class Every:
    """A fixed interval in seconds, counted from the beginning of 1970 in UTC."""

    seconds: int

    def __post_init__(self) -> None:
        if self.seconds < 1:
            raise ScheduleError("an interval must be at least 1 s")


def due_after(rule: Cron | Every, zone: ZoneInfo, after: datetime) -> Iterator[datetime]:
    """The due instants after ``after``, ascending, without end."""
    if isinstance(rule, Every):
        number = int(after.timestamp() // rule.seconds) + 1
        while True:
            yield datetime.fromtimestamp(number * rule.seconds, UTC)
            number += 1
    start = _midnight(after)
    while True:
        yield from (instant for instant in _of_a_day(rule, zone, start) if instant > after)
        start += _DAY


def due_before(rule: Cron | Every, zone: ZoneInfo, until: datetime) -> Iterator[datetime]:
    """The due instants up to and including ``until``, descending."""
    if isinstance(rule, Every):
        for number in range(int(until.timestamp() // rule.seconds), 0, -1):
            yield datetime.fromtimestamp(number * rule.seconds, UTC)
        return
    start = _midnight(until)
    while True:
        yield from (instant for instant in reversed(_of_a_day(rule, zone, start)) if instant <= until)
        start -= _DAY


def _midnight(instant: datetime) -> datetime:
    return instant.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)


def _of_a_day(rule: Cron, zone: ZoneInfo, start: datetime) -> list[datetime]:
    """The due instants of a day of UTC, in order: of the days on the wall that lie over it, and of the one before them.

    Clocks that are put back over midnight let two days on the wall take turns.
    """
    end = start + _DAY
    first, last = start.astimezone(zone).date() - _DAY, end.astimezone(zone).date()
    days = (first + number * _DAY for number in range((last - first).days + 1))
    return sorted({instant for day in days for instant in rule.instants(day, zone) if start <= instant < end})


def _field(name: str, text: str, least: int, most: int, names: dict[str, int]) -> set[int]:
    found: set[int] = set()
    for part in text.split(","):
        match = _PART.fullmatch("*" if part == "?" else part)
        if match is None:
            raise ScheduleError(f"{name} {part!r}: expected for example *, 5, 1-5, */15 or 1,3")
        star, low, high, step = match.groups()
        first = least if star else _number(name, low, least, most, names)
        last = most if star or (step and high is None) else _number(name, high or low, least, most, names)
        if last < first:
            raise ScheduleError(f"{name} {part!r}: the range runs backwards")
        if step is not None and not 1 <= int(step) <= most - least + 1:
            raise ScheduleError(f"{name} {part!r}: a step is from 1 to {most - least + 1}")
        found.update(range(first, last + 1, int(step or 1)))
    return found


def _number(name: str, text: str, least: int, most: int, names: dict[str, int]) -> int:
    number = names.get(text.lower(), int(text) if text.isascii() and text.isdigit() else -1)
    if not least <= number <= most:
        words = f", or {', '.join(names)}" if names else ""
        raise ScheduleError(f"{name} {text!r}: expected {least} to {most}{words}")
    return number


def rule(registered: Mapping[str, Any]) -> Cron | Every:
    """The rule of a schedule as it is registered: ``cron`` or ``every`` (seconds)."""
    return Cron.parse(registered["cron"]) if registered["cron"] else Every(registered["every"])
