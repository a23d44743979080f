"""Scheduler and watchdog in different zones agree on when a schedule in a third is due."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from bench.virtual.clock import install

TOP = Path(__file__).parents[2]
START = datetime(2027, 1, 1, tzinfo=UTC)
KEYS = {"name": "night", "cron": "30 2 * * *", "timezone": "Europe/Berlin", "grace": "10m"}
# On the night of 28 March there is no 02:30; an hour later by the wall is 01:30 in UTC, as on the days before.
SUMMER = (datetime(2027, 3, 29, tzinfo=UTC), datetime(2027, 10, 31, tzinfo=UTC))


@dataclass
class Apart:
    process: subprocess.Popen[str]
    zone: str = ""

    def ask(self, moment: datetime) -> Any:
        assert self.process.stdin is not None
        self.process.stdin.write(moment.isoformat() + "\n")
        self.process.stdin.flush()
        return self.answer()

    def answer(self) -> Any:
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())


@contextmanager
def apart(role: str, zone: str, url: str, folder: Path) -> Iterator[Apart]:
    command = [sys.executable, "-m", "tests.watchdog.in_a_zone", role, url, str(folder), json.dumps(KEYS)]
    environment = {**os.environ, "TZ": zone, "PGTZ": zone}
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=TOP, env=environment, stdin=pipe, stdout=pipe, text=True) as process:
        made = Apart(process)
        made.zone = made.answer()
        yield made


def due_on(day: datetime) -> datetime:
    """02:30 in Berlin, reckoned by hand."""
    return day + (timedelta(minutes=30) if SUMMER[0] <= day <= SUMMER[1] else timedelta(hours=1, minutes=30))


def test_a_watchdog_in_kolkata_and_a_scheduler_in_utc_agree_for_four_hundred_days(database: str, tmp_path: Path) -> None:
    """R28, R05: of 400 days every 37th is missed: told on those, and on no other; one stored zone only."""
    install(database, START)
    told, expected = [], []
    with (
        apart("scheduler", "UTC", database, tmp_path) as scheduler,
        apart("watchdog", "Asia/Kolkata", database, tmp_path) as watchdog,
    ):
        assert (scheduler.zone, watchdog.zone) == ("+0000", "+0530")
        assert scheduler.ask(START) is None
        for number in range(400):
            due = due_on(START + timedelta(days=number))
            is_missed = number % 37 == 36
            assert scheduler.ask(due - timedelta(seconds=1)) is None
            if not is_missed:
                assert scheduler.ask(due + timedelta(seconds=2)) == due.isoformat()
            assert watchdog.ask(due + timedelta(minutes=9, seconds=59)) == []
            words = watchdog.ask(due + timedelta(minutes=10, seconds=1))
            expected += [number] * is_missed
            told += [number] * bool(words)
            if is_missed:
                assert [f"due {due:%Y-%m-%d} 02:30:00 CE" in text for text in words] == [True]
                assert scheduler.ask(due + timedelta(hours=2)) == due.isoformat()
                assert watchdog.ask(due + timedelta(hours=2, seconds=30)) == []
    assert told == expected
    assert len(expected) == 10
