"""What counts as wrong: a table of what the database may show."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from stoker.watchdog.facts import Came, Facts, Lane, Schedule
from stoker.watchdog.judge import judge
from stoker.watchdog.settings import WatchdogSettings

NOW = datetime(2026, 12, 1, 10, 0, tzinfo=UTC)


def settings(**keys: Any) -> WatchdogSettings:
    return WatchdogSettings.of(keys)


def schedule(decided: timedelta | None, since: timedelta = timedelta(days=9), **rule: Any) -> Schedule:
    kept = {"cron": "0 7 * * *", "every": None, "timezone": "UTC", "grace": 600.0, **rule}
    return Schedule("day", kept, NOW - since, NOW, None if decided is None else NOW - decided)


def causes(facts: Facts, **keys: Any) -> list[str]:
    return [finding.cause for finding in judge(facts, settings(**keys))]


@pytest.mark.parametrize(
    ("facts", "found"),
    [
        (schedule(timedelta(hours=3)), []),
        (schedule(timedelta(hours=27)), ["slot day"]),
        (schedule(timedelta(hours=27), grace=4 * 3600.0), []),
        (schedule(None, since=timedelta(hours=2)), []),
        (schedule(None, since=timedelta(hours=4)), ["slot day"]),
        (schedule(timedelta(hours=20), timezone="America/New_York"), []),
        (schedule(timedelta(hours=27), timezone="Asia/Kolkata"), ["slot day"]),
        (schedule(timedelta(seconds=3600), cron=None, every=1800), ["slot day"]),
        (schedule(timedelta(seconds=1700), cron=None, every=1800), []),
    ],
)
def test_a_due_time_without_a_slot_is_found_after_its_grace(facts: Schedule, found: list[str]) -> None:
    """P8, R28: derived from the one stored rule; silent at birth until the first due time."""
    assert causes(Facts(schedules=[facts])) == found


def test_a_missed_fire_is_told_in_words_a_person_understands() -> None:
    """The words of plain cron, and those of a schedule in its own time."""
    (finding,) = judge(Facts(schedules=[schedule(timedelta(hours=27), timezone="Europe/Berlin")]), settings())
    assert "Schedule day did not fire: due 2026-12-01 07:00:00 CET, 4h ago" in finding.words
    (dark,) = judge(Facts(lanes=[Lane("main", 9 * 3600.0, None, None)]), settings(expected_interval="8h"))
    assert dark.words.startswith("Orchestrator did not fire. The fleet is dark. Lane main: a fire is expected every 8h")


@pytest.mark.parametrize(
    ("facts", "keys", "found"),
    [
        (Facts(born_seconds=60.0), {"expected_interval": "1h"}, []),
        (Facts(born_seconds=5000.0), {"expected_interval": "1h"}, ["interval main"]),
        (Facts(born_seconds=5000.0), {}, []),
        (Facts(lanes=[Lane("main", 60.0, None, None)], born_seconds=9e9), {"expected_interval": "1h"}, []),
        (Facts(lanes=[Lane("other", 60.0, None, None)], born_seconds=9e9), {"expected_interval": "1h"}, ["interval main"]),
        (Facts(lanes=[Lane("main", 1.0, 7, -5.0)]), {}, []),
        (Facts(lanes=[Lane("main", 1.0, 7, 5.0)]), {}, ["deadline main"]),
        (Facts(notes=[Came("main", ["hollow", "hollow"])]), {}, []),
        (Facts(notes=[Came("main", ["hollow", "hollow", "hollow"])]), {}, ["hollow main"]),
        (Facts(notes=[Came("main", ["well", "hollow", "hollow"])]), {}, []),
        (Facts(notes=[Came("main", ["idle", "well"])]), {}, ["idle main"]),
        (Facts(notes=[Came("main", ["idle", "well"])]), {"idle_fires": 2}, []),
        (Facts(notes=[Came("main", ["idle", "hollow", "idle"])]), {}, ["idle main"]),
        (Facts(notes=[Came("main", ["hollow", "idle", "idle"])]), {}, ["hollow main"]),
        (Facts(notes=[Came("main", ["hollow"] * 3, waits=False)]), {}, []),
        (Facts(notes=[Came("main", ["failed", "hollow", "failed"], waits=False)]), {}, ["hollow main"]),
        (Facts(notes=[Came("main", ["idle"], waits=False)]), {}, []),
        (Facts(notes=[Came("adhoc", ["idle"], silent_seconds=90_000.0)]), {}, ["idle adhoc"]),
        (Facts(notes=[Came("adhoc", ["idle"], silent_seconds=94_000.0)]), {}, []),
        (Facts(notes=[Came("adhoc", ["failed"] * 3, silent_seconds=94_000.0)]), {}, []),
        (Facts(notes=[Came("weekly", ["failed"] * 3, silent_seconds=6e5, is_expected=True)]), {}, ["hollow weekly"]),
        (Facts(notes=[Came("main", ["idle"], silent_seconds=6e5)]), {"expected_interval": "7d"}, ["idle main"]),
        (Facts(oldest=[("m", 7200.0)]), {}, []),
        (Facts(oldest=[("m", 7200.0)]), {"oldest_task": "1h"}, ["oldest m"]),
        (Facts(expected=[("backup", 3600.0, 3700.0, True), ("report", 3600.0, 4300.0, False)]), {}, ["expected report"]),
        (Facts(expected=[("backup", 60.0, 9e9, True)], gate=("ann", "repairs", 60.0)), {}, []),
        (Facts(expected=[("backup", 60.0, 9e9, True)], opened_seconds=30.0), {}, []),
        (Facts(expected=[("backup", 60.0, 9e6, True)], opened_seconds=700.0), {}, ["expected backup"]),
        (Facts(schedules=[schedule(timedelta(hours=27))], opened_seconds=590.0), {}, []),
        (Facts(schedules=[schedule(timedelta(hours=27))], opened_seconds=610.0), {}, ["slot day"]),
        (Facts(lanes=[Lane("main", 9e6, None, None)], opened_seconds=4000.0), {"expected_interval": "1h"}, []),
        (Facts(oldest=[("m", 9e6)], opened_seconds=60.0), {"oldest_task": "1h"}, []),
        (Facts(gate=("ann", "repairs", 60.0), notes=[Came("main", ["hollow"] * 3)]), {}, []),
        (Facts(gate=("ann", "repairs", 90_000.0)), {}, ["gate"]),
        (Facts(gate=("ann", "repairs", 90_000.0)), {"gate_reminder": "none"}, []),
    ],
)
def test_what_is_wrong_and_what_is_not(facts: Facts, keys: dict[str, Any], found: list[str]) -> None:
    """P8: no page while the gate is closed, but that it still is."""
    assert causes(facts, **keys) == found
