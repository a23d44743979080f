"""Whose time it is: a watchdog anywhere judges a schedule in its own zone, and says nothing before the first due time."""

import json
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from tests.watchdog.scenes import Connection, Sink, open_causes, watch

# Judges at each of the instants that it reads: what was decided until when, and what time it is.
JUDGE = """
import json, sys, time
from datetime import datetime
from stoker.watchdog.facts import Facts, Schedule
from stoker.watchdog.judge import judge
from stoker.watchdog.settings import WatchdogSettings
assert time.tzname == ("IST", "IST")
cron, asked = json.load(sys.stdin)
rule = {"cron": cron, "every": None, "timezone": "Europe/Berlin", "grace": 600.0}
said = []
for decided, now in asked:
    one = Schedule("day", rule, datetime.fromisoformat(decided), datetime.fromisoformat(now), datetime.fromisoformat(decided))
    said.append(bool(judge(Facts(schedules=[one]), WatchdogSettings.of({}))))
json.dump(said, sys.stdout)
"""


@pytest.mark.parametrize(("hour", "minute"), [(2, 30), (7, 0), (23, 59)])
def test_four_hundred_days_in_another_zone_bring_no_false_and_no_missed_alarm(hour: int, minute: int) -> None:
    """R28: the process is in India, the schedule in Berlin, with both changes of its clocks; the table is reckoned apart."""
    berlin, first = ZoneInfo("Europe/Berlin"), datetime(2026, 2, 1, hour, minute)
    due = [(first + timedelta(days=day)).replace(tzinfo=berlin).astimezone(UTC) for day in range(401)]
    asked, expected = [], []
    for last, following in pairwise(due):
        for late, is_wrong in ((-3600, False), (0, False), (599, False), (601, True), (7200, True)):
            asked.append((last.isoformat(), (following + timedelta(seconds=late)).isoformat()))
            expected.append(is_wrong)
    done = subprocess.run(
        [sys.executable, "-P", "-c", JUDGE],
        input=json.dumps([f"{minute} {hour} * * *", asked]),
        env={**os.environ, "TZ": "Asia/Kolkata"},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert json.loads(done.stdout) == expected


def test_a_process_in_another_zone_looks_at_a_schedule_in_its_own(
    database: str, connection: Connection, sink: Sink, tmp_path: Path
) -> None:
    """R28: a whole process; it tells the due time as it is on the schedule's wall."""
    (tmp_path / "config.toml").write_text(f'[database]\nurl = "{database}"\n[watchdog]\nwebhook = "{sink.url}"\n')
    ((now,),) = connection.execute("select now()").fetchall()
    due = now.astimezone(ZoneInfo("Europe/Berlin")) - timedelta(minutes=30)
    rule = {"cron": f"{due.minute} {due.hour} * * *", "every": None, "timezone": "Europe/Berlin", "grace": 600.0}

    def look(since: timedelta) -> int:
        connection.execute("delete from stoker.schedules")
        connection.execute(
            "insert into stoker.schedules (schedule, rule, since) values ('day', %s, %s)", (json.dumps(rule), now - since)
        )
        command = [sys.executable, "-P", "-m", "stoker.watchdog.cli", "--once"]
        env = {**os.environ, "TZ": "Asia/Kolkata"}
        return subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, timeout=60, check=False).returncode

    assert (look(timedelta(minutes=20)), look(timedelta(hours=1))) == (0, 1)
    assert f"due {due:%Y-%m-%d %H:%M}:00 CE" in sink.pages[0]["text"]


def test_nothing_is_said_before_the_first_due_time_and_its_grace_and_then_once(
    database: str, connection: Connection, sink: Sink, tmp_path: Path
) -> None:
    """P8: at birth nobody is missing; a schedule that never started is one page."""
    dog = watch(database, tmp_path, webhook=sink.url)
    rule = json.dumps({"cron": None, "every": 3600, "timezone": "UTC", "grace": 600.0})
    connection.execute(
        "insert into stoker.schedules (schedule, rule, since) values"
        " ('s', %s, to_timestamp(floor(extract(epoch from now()) / 3600) * 3600))",
        (rule,),
    )
    assert dog.look().findings == []
    connection.execute(
        "update stoker.schedules set rule = jsonb_set(rule::jsonb, '{every}', '1')::json, since = now() - interval '9 min'"
    )
    assert dog.look().findings == []
    connection.execute("update stoker.schedules set since = now() - interval '11 min'")
    assert [dog.look().sent for _ in range(4)] == [1, 0, 0, 0]
    assert open_causes(connection) == ["slot s"]
    assert "It never started." in sink.pages[0]["text"]
    dog.close()


def test_a_schedule_that_cannot_be_judged_here_hides_no_other(
    database: str, connection: Connection, sink: Sink, tmp_path: Path
) -> None:
    """A time zone that this host does not know is told, and everything else is judged all the same."""
    dog = watch(database, tmp_path, webhook=sink.url)
    for name, zone in (("a", "Mars/Olympus"), ("b", "UTC")):
        rule = json.dumps({"cron": None, "every": 1, "timezone": zone, "grace": 1.0})
        connection.execute(
            "insert into stoker.schedules (schedule, rule, since) values (%s, %s, now() - interval '1 h')", (name, rule)
        )
    dog.look()
    assert open_causes(connection) == ["slot a", "slot b"]
    assert "cannot be judged on this host" in sink.pages[0]["text"]
    dog.close()
