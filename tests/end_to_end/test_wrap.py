"""``stoker wrap``: somebody's cron job as a fire of its own."""

import re
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from tests.end_to_end.project import Project, is_alive
from tests.waiting import wait_until

from stoker.sql.database import Database
from stoker.sql.target import Target

MODES = '[modes.plain]\nhandler = "jobs:plain"\n[worker]\nmodes = ["plain"]\n[limits]\nfires_per_day = 1\n'


@pytest.fixture
def shop(project: Project) -> Project:
    """A project whose own limits and modes are not the job's."""
    project.write(MODES)
    return project


def script(project: Project, text: str) -> list[str]:
    """A Python program in the project's folder."""
    (project.folder / "job.py").write_text(text)
    return ["--", sys.executable, "job.py"]


def lines(project: Project, name: str) -> list[str]:
    path = project.folder / name
    return path.read_text().split() if path.exists() else []


def test_a_job_runs_as_it_did_under_cron_and_its_exit_status_is_passed_on(shop: Project) -> None:
    """Its folder, its environment, an empty standard input; what it prints is shown, kept, and never taken for a word to us."""
    job = script(
        shop,
        "import os, sys\n"
        "print('{\"result\": 7}', os.environ['SECRET_OF_CRON'], os.getcwd(), repr(sys.stdin.read()))\n"
        "print('on stderr', file=sys.stderr)\n"
        "sys.exit(int(sys.argv[1]))\n",
    )
    for number, status in enumerate((0, 3, 75, 65, 0), start=1):
        done = shop.run("wrap", "backup", *job, str(status), SECRET_OF_CRON="abc")
        assert done.returncode == status
        assert f"{{\"result\": 7}} abc {shop.folder} ''\n" in done.stdout
        assert "on stderr\n" in done.stdout
        assert (f"stoker: backup: exit status {status} (fire {number})" in done.stderr) == bool(status)
    rows = shop.query("select status, attempts, payload->>'program', error_detail from stoker.task_queue order by id")
    assert [row[:2] for row in rows] == [("done", 1), ("failed", 1), ("failed", 1), ("failed", 1), ("done", 1)]
    assert {row[2] for row in rows} == {Path(sys.executable).name}
    assert shop.query("select count(*), min(lane) from stoker.notes join stoker.fires using (fire)") == [(5, "backup")]
    assert "abc" in shop.run("logs", "2").stdout


def test_it_never_runs_twice_at_once_and_a_refusal_leaves_nothing(shop: Project) -> None:
    """Another job's lane is another's; refused it exits 0 with a line, or 11 when asked."""
    job = script(
        shop, "import time\nopen('starts', 'a').write('x ')\nwhile not __import__('os').path.exists('gate'): time.sleep(0.02)\n"
    )
    first = shop.start("wrap", "backup", *job)
    wait_until(lambda: lines(shop, "starts") == ["x"], 30, "the job to start")
    second = shop.run("wrap", "backup", *job)
    assert (second.returncode, "is still active" in second.stderr) == (0, True)
    assert shop.run("wrap", "backup", "--exit-code", *job).returncode == 11
    assert shop.run("wrap", "other", "--", "/bin/true").returncode == 0
    shop.open_gate()
    assert first.wait(30) == 0
    assert lines(shop, "starts") == ["x"]
    assert shop.query("select count(*) from stoker.tasks") == [(2,)]


@pytest.mark.parametrize("end", ["limit", signal.SIGTERM, signal.SIGKILL])
def test_all_that_it_started_ends_with_it(shop: Project, end: str | signal.Signals) -> None:
    """P6, P4: at its limit (124), when wrap is told to stop, and when wrap is killed: then the next one writes the note."""
    job = script(
        shop,
        "import os, subprocess, sys, time\n"
        "child = subprocess.Popen(['sleep', '600'], start_new_session=True)\n"
        "open('pids', 'w').write(f'{os.getpid()} {child.pid}')\n"
        "time.sleep(600)\n",
    )
    limit = ["--time-limit", "1s"] if end == "limit" else []
    wrap = shop.start("wrap", "backup", *limit, *job)
    wait_until(lambda: len(lines(shop, "pids")) == 2, 30, "the job to start")
    if end != "limit":
        wrap.send_signal(end)
    status = wrap.wait(60)
    assert status == {"limit": 124, signal.SIGTERM: 128 + signal.SIGTERM, signal.SIGKILL: -signal.SIGKILL}[end]
    pids = [int(word) for word in lines(shop, "pids")]
    wait_until(lambda: not any(is_alive(pid) for pid in pids), 60, "the job and its child to end")
    assert shop.run("wrap", "backup", "--", "/bin/true").returncode == 0
    ends = {"limit": "normal", signal.SIGTERM: "interrupted", signal.SIGKILL: "reaped"}
    assert [row[0] for row in shop.query("select facts->>'ended' from stoker.notes order by fire")] == [ends[end], "normal"]


def test_without_a_config_it_makes_its_own(tmp_path: Path, project: Project) -> None:
    """With the embedded database beside it, which this test gives a server instead."""
    project.folder = tmp_path
    home = {"XDG_STATE_HOME": str(tmp_path / "state"), "STOKER_DATABASE_URL": project.url}
    done = project.run("wrap", "hello", "--", "echo", "hi", **home)
    assert (done.returncode, done.stdout) == (0, "hi\n")
    made = tmp_path / "state" / "stoker" / "config.toml"
    assert f"wrote {made}" in done.stderr
    assert project.run("wrap", "hello", "--", "echo", "hi", **home).stderr.count("\n") == 1
    assert project.query("select count(*) from stoker.notes") == [(2,)]


def test_what_cannot_be_is_refused(shop: Project) -> None:
    """With what to do; a program that is not there is a failure that says so."""
    for words, told in (
        (["plain", "--", "true"], "is a mode of"),
        (["No Name", "--", "true"], "a job's name is"),
        (["job", "--time-limit", "soon", "--", "true"], "--time-limit 'soon'"),
        (["job"], "say which program, after --"),
    ):
        refused = shop.run("wrap", *words)
        assert (refused.returncode, told in refused.stderr) == (2, True)
    missing = shop.run("wrap", "job", "--", "no-such-program")
    assert missing.returncode == 127
    assert "no-such-program" in missing.stderr
    assert shop.run("gate", "close", "--reason", "moving").returncode == 0
    closed = shop.run("wrap", "job", "--exit-code", "--", "/bin/true")
    assert (closed.returncode, "moving" in closed.stderr) == (11, True)


def test_a_job_that_is_expected_is_paged_when_it_did_not_run(shop: Project) -> None:
    """P8: per lane, from what it said last; not while it runs, and not once it is not expected any more."""
    shop.write(MODES + '[watchdog]\ncommand = ["/bin/sh", "-c", "cat >> pages"]\n')
    job = script(shop, "open('starts', 'a').write('x ')\n")
    look = (sys.executable, "-P", "-m", "stoker.watchdog.cli", "--once")

    def looked() -> str:
        environment = shop.environment()
        return subprocess.run(look, cwd=shop.folder, env=environment, capture_output=True, text=True, timeout=60).stdout

    assert shop.run("wrap", "backup", "--expect", "24h", *job).returncode == 0
    assert shop.run("wrap", "report", "--expect", "1h").stdout == "report is expected every 1h\n"
    assert shop.run("wrap", "other", *job).returncode == 0
    assert looked() == "all is well\n"
    shift = "update stoker.{} set {} = {} - interval '25 hours' returning 1"
    for table, column in (("lanes", "expected_since"), ("fires", "closed_at")):
        shop.query(shift.format(table, column, column))
    assert [re.sub(r"1d1h[0-9ms]*", "1d1h", line) for line in looked().splitlines()] == [
        "backup did not run: it is expected every 1d, and it last ended 1d1h ago. Is cron running?",
        "report did not run: it is expected every 1h, and it has not since that was said, 1d1h ago. Is cron running?",
    ]
    assert shop.run("wrap", "backup", *job).returncode == 0
    assert shop.run("wrap", "report", "--expect", "none").stdout == "report is not expected any more\n"
    assert looked() == "all is well\n"
    assert shop.query("select lane from stoker.lanes where expected_seconds is not null") == [("backup",)]
    assert [cause for cause in ("expected backup", "expected report") if cause in (shop.folder / "pages").read_text()] == [
        "expected backup", "expected report",
    ]  # fmt: skip


def test_a_job_that_runs_for_longer_than_it_is_expected_is_not_silent(shop: Project) -> None:
    """Its own deadline says when that is too long."""
    job = script(shop, "import time\nopen('starts', 'a').write('x ')\nwhile True: time.sleep(1)\n")
    running = shop.start("wrap", "backup", "--expect", "1s", "--time-limit", "1m", *job)
    wait_until(lambda: lines(shop, "starts") == ["x"], 30, "the job to start")
    shop.query("update stoker.lanes set expected_since = expected_since - interval '1 day' returning 1")
    with closing(Database(Target(shop.url))) as database:
        assert database.run("watch_expected") == []
    running.terminate()
    running.wait(timeout=30)


def test_an_expectation_that_is_none_is_refused(shop: Project) -> None:
    """Nothing is run, and nothing is remembered."""
    for text in ("often", "0s", "24"):
        done = shop.run("wrap", "backup", "--expect", text, "--", "true")
        assert done.returncode == 2
        assert "--expect" in done.stderr
    done = shop.run("wrap", "backup")
    assert (done.returncode, "say which program" in done.stderr) == (2, True)
    assert shop.query("select count(*) from stoker.lanes where lane = 'backup'") == [(0,)]
