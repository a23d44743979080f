"""When a schedule is due, beside a table that is made another way: minute by minute of UTC, looked up on the wall."""

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from itertools import islice
from zoneinfo import ZoneInfo

import pytest

from stoker.sql.due import Cron, Every, ScheduleError, due_after, due_before

ZONES = (
    "UTC", "Europe/Berlin", "Europe/London", "Europe/Dublin", "America/New_York", "America/Los_Angeles", "America/St_Johns",
    "America/Sao_Paulo", "America/Santiago", "America/Havana", "Africa/Casablanca", "Africa/Cairo", "Asia/Tehran",
    "Asia/Kolkata", "Asia/Kathmandu", "Asia/Beirut", "Australia/Sydney", "Australia/Lord_Howe", "Pacific/Apia",
    "Pacific/Chatham",
)  # fmt: skip
RULES = (
    "* * * * *", "*/15 * * * *", "0 * * * *", "30 * * * *", "7,37 * * * *", "0 0 * * *", "30 0 * * *", "0 1 * * *",
    "30 1 * * *", "0 2 * * *", "30 2 * * *", "15,45 2 * * *",
    "0 3 * * *", "0 7,13,19 * * *", "0 0-6 * * *", "*/20 1-3 * * *", "0 */2 * * *",
    "0 */5 * * *", "59 23 * * *", "0 9 * * mon-fri", "30 2 * * sun", "0 0 * * 0", "0 0 * * 7", "0 0 1 * *", "30 2 28-31 3 *",
    "0 12 13 * fri", "0 0 1 jan *", "0 0 29 2 *", "@hourly", "@weekly",
)  # fmt: skip


def wall(instant: datetime, zone: ZoneInfo) -> datetime:
    return instant.astimezone(zone).replace(tzinfo=None)


def named(rule: Cron, at: datetime) -> bool:
    """Whether the expression names this time on the wall, told by reading its text once more."""
    minute, hour, *_ = rule.minutes, rule.hours
    return at.minute in minute and at.hour in hour and rule.falls_on(at.date())


Wall = list[tuple[datetime, datetime, bool, bool]]


def looked_up(zone: ZoneInfo, start: datetime, end: datetime) -> Wall:
    """Every minute of UTC with what the wall shows, whether for the first time, and whether the clocks jumped over it."""
    found: Wall = []
    seen: set[datetime] = set()
    instant = start - timedelta(hours=30)
    before = wall(instant - timedelta(minutes=1), zone)
    while instant <= end:
        at = wall(instant, zone)
        gap = at - before - timedelta(minutes=1)
        for number in range(int(gap.total_seconds() // 60)):
            found.append((instant + number * timedelta(minutes=1), at - gap + number * timedelta(minutes=1), True, True))
        found.append((instant, at, at not in seen, False))
        seen.add(at)
        before, instant = at, instant + timedelta(minutes=1)
    return found


def table(rule: Cron, minutes: Wall, start: datetime, end: datetime) -> list[datetime]:
    """The instants that a rule names, told from what the wall shows."""
    every_hour = len(rule.hours) == 24
    named_times = {
        instant
        for instant, at, is_first, is_missing in minutes
        if start < instant <= end and (not is_missing if every_hour else is_first) and named(rule, at)
    }
    return sorted(named_times)


def changes(zone: ZoneInfo, start: date, days: int) -> Iterator[date]:
    """The days on which the clocks change."""
    for number in range(days):
        day = start + timedelta(days=number)
        noons = [datetime(one.year, one.month, one.day, 12, tzinfo=zone).utcoffset() for one in (day, day + timedelta(days=1))]
        if noons[0] != noons[1]:
            yield day


@pytest.mark.parametrize("name", ZONES)
def test_due_times_are_those_of_an_independent_table_whenever_the_clocks_change(name: str) -> None:
    """R05, F6: the days around every change of four years, forwards and backwards."""
    zone = ZoneInfo(name)
    days = [date(2010, 6, 15), *islice(changes(zone, date(2009, 1, 1), 366 * 4), 5)]
    for day in days:
        start = datetime(day.year, day.month, day.day, tzinfo=UTC) - timedelta(hours=20)
        end = start + timedelta(hours=66)
        minutes = looked_up(zone, start, end)
        for text in RULES:
            rule = Cron.parse(text)
            forward = []
            for instant in due_after(rule, zone, start):
                if instant > end:
                    break
                forward.append(instant)
            assert forward == table(rule, minutes, start, end), (name, text, day)
            backward = []
            for instant in due_before(rule, zone, end):
                if instant <= start:
                    break
                backward.append(instant)
            assert backward[::-1] == forward, (name, text, day)


@pytest.mark.parametrize(
    ("name", "day", "text", "walls"),
    [
        ("Europe/Berlin", date(2026, 3, 29), "30 2 * * *", ["03:30"]),
        ("Europe/Berlin", date(2026, 10, 25), "30 2 * * *", ["02:30"]),
        ("Europe/Berlin", date(2026, 3, 29), "0 0 * * *", ["00:00"]),
        ("Australia/Lord_Howe", date(2026, 10, 4), "15 2 * * *", ["02:45"]),
        ("America/Sao_Paulo", date(2018, 11, 4), "0 0 * * *", ["01:00"]),
        ("Pacific/Apia", date(2011, 12, 30), "0 9 * * *", ["09:00"]),
    ],
)
def test_a_time_that_there_is_not_comes_as_much_later(name: str, day: date, text: str, walls: list[str]) -> None:
    """R05: once on both nights."""
    zone = ZoneInfo(name)
    found = [instant.astimezone(zone).strftime("%H:%M") for instant in Cron.parse(text).instants(day, zone)]
    assert found == walls


@pytest.mark.parametrize(("day", "count"), [(date(2026, 3, 29), 23), (date(2026, 10, 25), 25), (date(2026, 10, 26), 24)])
def test_every_hour_is_every_hour_there_is(day: date, count: int) -> None:
    """R05: 23, 25 and 24 of them."""
    assert len(Cron.parse("0 * * * *").instants(day, ZoneInfo("Europe/Berlin"))) == count


def test_the_latest_of_half_a_million_is_found_without_counting_them() -> None:
    """R06: the last one before now is looked for from now on backwards."""
    rule, zone = Cron.parse("* * * * *"), ZoneInfo("Europe/Berlin")
    now = datetime(2026, 12, 1, 10, 0, 30, tzinfo=UTC)
    assert next(due_before(rule, zone, now)) == now.replace(second=0)
    assert next(due_before(rule, zone, now.replace(second=0))) == now.replace(second=0)


def test_an_interval_counts_from_one_beginning_for_everybody() -> None:
    """Whoever asks, and when: the same instants."""
    rule, zone, at = Every(900), ZoneInfo("UTC"), datetime(2026, 12, 1, 10, 7, tzinfo=UTC)
    assert list(islice(due_after(rule, zone, at), 2)) == [at.replace(minute=15), at.replace(minute=30)]
    assert list(islice(due_before(rule, zone, at), 2)) == [at.replace(minute=0), at.replace(hour=9, minute=45)]
    assert next(due_after(rule, zone, at.replace(minute=15))) == at.replace(minute=30)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "five fields"), ("* * * *", "five fields"), ("* * * * * *", "five fields"), ("@reboot", "five fields"),
        ("60 * * * *", "minute '60'"), ("* 24 * * *", "hour '24'"), ("* * 0 * *", "day of the month '0'"),
        ("* * * 13 *", "month '13'"), ("* * * * 8", "day of the week '8'"), ("* * * foo *", "jan, feb"),
        ("5-1 * * * *", "runs backwards"), ("*/0 * * * *", "a step is"), ("*/61 * * * *", "a step is"),
        ("1,,2 * * * *", "expected for example"), ("-1 * * * *", "expected for example"), ("\u0661 * * * *", "expected"),
        ("0 0 31 2 *", "do not have"), ("0 0 30 2 *", "do not have"),
    ],
)  # fmt: skip
def test_an_expression_that_names_no_time_is_refused(text: str, words: str) -> None:
    """It says which field."""
    with pytest.raises(ScheduleError, match=words):
        Cron.parse(text)
