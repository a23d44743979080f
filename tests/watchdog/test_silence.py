"""Who has gone silent: by a table, and by real processes that are ended in order and killed."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.end_to_end.project import Project
from tests.waiting import wait_until
from tests.watchdog.scenes import Connection, ago, open_causes, watch

from stoker.watchdog.facts import Away, Beat, Facts
from stoker.watchdog.judge import judge
from stoker.watchdog.settings import WatchdogSettings
from stoker.watchdog.silence import missed

NEVER = Away(0.0, 0.0)


def beat(component: str, instance: str, began: float, last: float, expected: float = 60.0, beats: int = 9) -> Beat:
    return Beat(component, instance, ago(began), ago(last), expected, beats, last)


@pytest.mark.parametrize(
    ("beats", "found"),
    [
        ([beat("sweep", "a:1", 9000, 100)], {}),
        ([beat("sweep", "a:1", 9000, 121)], {"sweep": ["a:1"]}),
        ([beat("sweep", "a:1", 9000, 9000, expected=0.0)], {}),
        ([beat("loop x", "a:1", 9000, 500), beat("sweep", "a:1", 9000, 10)], {"loop x": ["a:1"]}),
        ([beat("sweep", "a:1", 9000, 500), beat("sweep", "a:2", 400, 10)], {}),
        ([beat("sweep", "a:1", 9000, 500), beat("sweep", "b:1", 9000, 10)], {"sweep": ["a:1"]}),
        ([beat("sweep", "a:1", 9000, 500), beat("sweep", "a:2", 400, 300, expected=0.0)], {}),
        (
            [beat("sweep", "a:1", 9000, 500), beat("sweep", "b:1", 9000, 510), beat("sweep", "a:2", 400, 10)],
            {"sweep": ["b:1"]},
        ),
        ([beat("sweep", f"a:{n}", 9000 - 100 * n, 8910 - 100 * n) for n in range(50)], {"sweep": ["a:49"]}),
        ([beat("sweep", f"a:{n}", 5000 - 100 * n, 4910 - 100 * n) for n in range(50)], {}),
        (
            [beat("sweep", "a:1", 9000, 500), beat("loop x", "a:1", 9000, 500), beat("sweep", "a:2", 400, 10)],
            {},
        ),
        ([beat("sweep", "a:1", 9000, 200, 240.0), beat("schedule", "a:1", 9000, 130)], {"sweep": ["a:1"]}),
        ([beat("sweep", "a:1", 9000, 110, 240.0), beat("schedule", "a:1", 9000, 130)], {"schedule": ["a:1"]}),
        (
            [beat("sweep", "a:1", 9000, 500, 240.0), beat("loop x", "a:1", 9000, 200), beat("schedule", "a:1", 9000, 10)],
            {"sweep": ["a:1"]},
        ),
        (
            [beat("sweep", "a:1", 9000, 200, 240.0), beat("schedule", "a:1", 9000, 130), beat("sweep", "a:2", 100, 10)],
            {},
        ),
        (
            [
                beat("loop x", "a:1", 9000, 520),
                beat("sweep", "a:1", 9000, 10),
                beat("loop x", "b:1", 9000, 500),
                beat("sweep", "b:1", 9000, 500),
                beat("loop x", "b:2", 400, 10),
                beat("sweep", "b:2", 400, 10),
            ],
            {"loop x": ["a:1"]},
        ),
        ([beat("sweep", "a:1", 9000, 500, expected=0.0), beat("loop x", "a:1", 9000, 500)], {"loop x": ["a:1"]}),
        ([beat("due", "a", 9000, 500)], {"due": ["a"]}),
        ([beat("due", "a", 9000, 500, beats=2)], {}),
        ([beat("due", "a", 9000, 500), beat("due", "b", 9000, 10)], {}),
        ([beat("due", "a", 9000, 500), beat("schedule", "a:1", 9000, 10)], {}),
        ([beat("due", "a", 9000, 500), beat("schedule", "a:1", 9000, 10, expected=0.0)], {"due": ["a"]}),
        ([beat("fire", "a:main", 9e6, 9e6)], {}),
        ([beat("due nightly", "a", 9e6, 9e6, beats=9)], {}),
        ([beat("watchdog", "a cron", 9e6, 9e6), beat("watchdog", "a:1", 9e6, 9e5)], {"watchdog": ["a:1"]}),
    ],
)
def test_who_is_missed(beats: list[Beat], found: dict[str, list[str]]) -> None:
    """Whoever is silent for twice what was promised, did not end in order, and has no successor."""
    assert {name: [one.instance for one in silent] for name, silent in missed(beats, NEVER).items()} == found


def test_the_time_that_the_database_was_away_is_taken_off() -> None:
    """Nobody could be heard meanwhile: R43."""
    beats = [beat("sweep", "a:1", 9000, 2800)]
    assert missed(beats, Away(2750.0, 1.0)) == {}
    assert list(missed(beats, Away(2750.0, 80.0))) == ["sweep"]


def test_ten_thousand_silent_instances_are_one_finding() -> None:
    """T18: it names the first, and says how many more."""
    beats = [beat("sweep", f"host{number:05}:1", 90_000, 9000 - number / 10) for number in range(10_000)]
    (finding,) = judge(Facts(beats=beats), WatchdogSettings.of({}))
    assert finding.cause == "heartbeat sweep"
    assert "host00000:1 since 2026-12-01 07:30:00 UTC, expected every 1m; host00001:1" in finding.words
    assert finding.words.endswith("and 9,997 more. Was it killed, or does it hang? See: stoker ready")


def test_what_a_process_kept_is_named_with_its_sweep(project: Project, tmp_path: Path) -> None:
    """T18: one kill -9 of stoker run is one incident, with all that went silent with it; a restart ends it."""
    loops = "".join(f'[[loops]]\nname = "{name}"\ncommand = ["true"]\ninterval = "1h"\n' for name in "ab")
    mode = '[modes.plain]\nhandler = "jobs:plain"\n[notify.ops]\nkind = "command"\ncommand = ["true"]\n'
    project.write(f'{mode}[[schedules]]\nname = "day"\nevery = "12h"\n{loops}')
    kept = "select count(*)::int from stoker.heartbeats where expected_seconds > 0 and component <> 'watchdog'"
    child = project.start("run")
    wait_until(lambda: project.query(kept)[0][0] >= 5, 30, "no beats")
    child.kill()
    child.wait()
    back = "update stoker.heartbeats set at = at - make_interval(secs => %s), began_at = began_at - interval '3 h' returning 1"
    project.query(back, 7200)
    # The server of the tests is younger than that.
    project.query("update stoker.heartbeats set expected_seconds = 0.001 where component <> 'watchdog' returning 1")
    dog = watch(project.url, tmp_path, quiet="1ms")
    (finding,) = dog.look().findings or ()
    assert finding.cause == "heartbeat sweep"
    assert ", and with it delivery, loop a, loop b, schedule." in finding.words
    project.start("run")
    wait_until(lambda: dog.look().findings == [], 30, "still missed")
    dog.close()


PROCESS = """
import sys
from stoker.orchestrator.runtime import Loop, Runtime
from stoker.sql.database import Database
from stoker.sql.target import Target
import anyio
def database(): return Database(Target(sys.argv[1]))
anyio.run(Runtime(database(), [Loop("digest", 0.2, lambda: 0)], None).run)
"""


def test_a_process_that_is_killed_is_missed_and_one_that_ends_in_order_is_not(
    database: str, connection: Connection, tmp_path: Path
) -> None:
    """P8: real processes, SIGTERM and SIGKILL, and the time passed by moving what they wrote."""
    dog = watch(database, tmp_path)

    def process() -> subprocess.Popen[bytes]:
        before = connection.execute("select count(*) from stoker.heartbeats").fetchall()
        child = subprocess.Popen([sys.executable, "-P", "-c", PROCESS, database])
        wait_until(lambda: connection.execute("select count(*) from stoker.heartbeats").fetchall() != before, 30, "no beat")
        return child

    def later() -> None:
        connection.execute("update stoker.heartbeats set at = at - interval '1 h', began_at = began_at - interval '1 h'")

    for number, found in ((signal.SIGTERM, []), (signal.SIGKILL, ["heartbeat digest"])):
        child = process()
        os.kill(child.pid, number)
        child.wait()
        connection.execute("delete from stoker.heartbeats where component = 'watchdog'")
        later()
        # The server of the tests is younger than an hour.
        connection.execute("update stoker.heartbeats set expected_seconds = least(expected_seconds, 0.001)")
        wait_until(lambda: dog.look().findings is not None)
        assert open_causes(connection) == found
    child = process()
    dog.look()
    connection.execute("update stoker.incidents set seen_at = seen_at - interval '1 h'")
    dog.look()
    assert open_causes(connection) == []
    child.terminate()
    child.wait()
    dog.close()


def test_a_watchdog_that_ends_in_order_is_not_missed_nor_is_one_that_cron_calls(
    database: str, connection: Connection, tmp_path: Path
) -> None:
    """One row a host for all runs of cron, which nobody misses; the standing one says farewell."""
    (tmp_path / "config.toml").write_text(f'[database]\nurl = "{database}"\n')
    command = [sys.executable, "-P", "-m", "stoker.watchdog.cli"]
    for _ in range(2):
        subprocess.run([*command, "--once"], cwd=tmp_path, check=True, capture_output=True)
    standing = subprocess.Popen(command, cwd=tmp_path)
    said = "select instance like '% cron', beats::int, expected_seconds > 0 from stoker.heartbeats order by 1 desc"
    wait_until(lambda: len(connection.execute(said.encode()).fetchall()) == 2, 30, "no beat")
    standing.terminate()
    assert standing.wait(20) == 128 + signal.SIGTERM
    assert connection.execute(said.encode()).fetchall() == [(True, 2, True), (False, 2, False)]
