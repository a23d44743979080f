"""Drills, by the command line, with real receivers, also killed."""

import json
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from tests.sinks import HANG, http_sink, smtp_sink
from tests.waiting import wait_until
from tests.watchdog.scenes import Connection, Sink, watch

from stoker.sql.database import Database
from stoker.sql.target import Target
from stoker.watchdog import delivery
from stoker.watchdog import drill as drills
from stoker.watchdog.channels import Pager
from stoker.watchdog.settings import WatchdogSettings

DRILL = [sys.executable, "-P", "-m", "stoker.watchdog.cli", "drill"]


def configure(database: str, folder: Path, **keys: Any) -> None:
    settings = "\n".join(f"{name} = {json.dumps(value)}" for name, value in keys.items())
    (folder / "config.toml").write_text(f'[database]\nurl = "{database}"\n[watchdog]\n{settings}\n')


def drill(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(DRILL, cwd=folder, capture_output=True, text=True, timeout=60, check=False)


def left(connection: Connection) -> list[tuple[Any, ...]]:
    return connection.execute(
        "select schedule from stoker.schedules union all select cause from stoker.incidents where resolved_at is null"
    ).fetchall()


def test_a_drill_walks_the_whole_path_by_every_channel_and_leaves_nothing(
    database: str, connection: Connection, sink: Sink, tmp_path: Path
) -> None:
    """P8: late, incident, page, resolved, all marked, within a minute, whatever was told within the hour."""
    connection.execute("insert into stoker.incidents (cause, words) values ('slot x', 'w')")
    connection.execute(
        "insert into stoker.pages (incident, action, number, words) select 1, 'trigger', n, 'w' from generate_series(1, 50) n"
    )
    with smtp_sink() as box:
        mail = {"mail_to": ["a@example.org"], "mail_from": "s@example.org", "smtp_host": "127.0.0.1", "smtp_port": box.port}
        second = {"escalate_after": "1h", "escalate_command": ["/bin/sh", "-c", "cat >> told; echo >> told"]}
        configure(database, tmp_path, webhook=sink.url, **mail, smtp_security="none", **second)
        began = time.monotonic()
        done = drill(tmp_path)
        assert time.monotonic() - began < 60
    assert done.returncode == 0, done.stderr
    assert (
        "the page went out by escalate_command, mail, webhook\nthat it is over was told by escalate_command, mail,"
        in done.stdout
    )
    assert "no watchdog ever looked" in done.stderr
    assert [(page["action"], page["drill"], page["cause"][:6]) for page in sink.pages] == [
        ("trigger", True, "drill "),
        ("resolve", True, "drill "),
    ]
    assert all(page["text"].startswith("DRILL, nothing is wrong: ") for page in sink.pages)
    assert [str(one["Subject"])[:23] for one in box.mails] == ["[stoker] DRILL wrong: d", "[stoker] DRILL resolved"]
    assert left(connection) == [("slot x",)]


def test_a_drill_says_which_channel_did_not_take_its_page(
    database: str, connection: Connection, sink: Sink, tmp_path: Path
) -> None:
    """And what it was not told of is not told to be over there, then or later."""
    configure(database, tmp_path, webhook=sink.url, command=["/bin/sh", "-c", "exit 3"])
    done = drill(tmp_path)
    assert (done.returncode, "it failed by command: /bin/sh ended with 3" in done.stderr) == (1, True)
    assert [action for action, _ in sink.actions] == ["trigger", "resolve"]
    dog = watch(database, tmp_path, webhook=sink.url, command=["/bin/sh", "-c", "exit 4"], pages_per_hour=1)
    assert dog.look().failures == []
    connection.execute("insert into stoker.incidents (cause, words, seen_at) values ('slot x', 'w', now())")
    assert dog.look().sent == 1  # the drill was none of the hour's pages
    dog.close()


def test_a_drill_refuses_while_the_gate_is_closed_or_nobody_would_be_told(
    database: str, connection: Connection, sink: Sink, tmp_path: Path
) -> None:
    """It says what to do."""
    configure(database, tmp_path)
    assert "no channel is configured" in drill(tmp_path).stderr
    configure(database, tmp_path, webhook=sink.url)
    connection.execute("insert into stoker.paused (mode, actor, reason) values ('*', 'ann', 'repairs')")
    done = drill(tmp_path)
    assert (done.returncode, "closed by ann: repairs; " in done.stderr, "stoker gate open" in done.stderr) == (1, True, True)
    assert (sink.told, left(connection)) == ([], [])


def test_a_drill_that_is_killed_is_cleaned_up_after_and_never_fired(
    database: str, connection: Connection, sink: Sink, tmp_path: Path
) -> None:
    """By the next look, once its time is over; while it lives no look ends it, or takes its slot for a real one."""
    with http_sink() as hanging:
        hanging.usual = HANG
        configure(database, tmp_path, webhook=hanging.url, command=["/bin/sh", "-c", "cat >> told; echo >> told"])
        child = subprocess.Popen(DRILL, cwd=tmp_path, stdout=subprocess.DEVNULL)
        wait_until(lambda: hanging.told and (tmp_path / "told").exists(), 30)
        child.send_signal(signal.SIGKILL)
        child.wait()
    dog = watch(database, tmp_path, webhook=sink.url, command=["/bin/sh", "-c", "cat >> told; echo >> told"], quiet="1ms")
    assert dog.look().findings == []
    assert len(left(connection)) == 2
    connection.execute("update stoker.schedules set drill_until = now() - interval '1 s'")
    connection.execute("update stoker.page_deliveries set sending_until = now() - interval '1 s' where sending_until > now()")
    dog.look()
    dog.look()
    assert left(connection) == []
    told = [json.loads(line)["action"] for line in (tmp_path / "told").read_text().splitlines() if line]
    assert told == ["trigger", "resolve"]
    assert connection.execute("select count(*) from stoker.slots").fetchall() == [(0,)]
    dog.close()


def test_a_drill_that_is_told_to_stop_cleans_up(database: str, connection: Connection, tmp_path: Path) -> None:
    """SIGTERM, while its slot is withheld."""
    configure(database, tmp_path, command=["true"])
    child = subprocess.Popen(DRILL, cwd=tmp_path, stdout=subprocess.DEVNULL)
    wait_until(lambda: left(connection), 30)
    child.terminate()
    assert child.wait(30) == 128 + signal.SIGTERM
    assert left(connection) == []


def test_a_drill_waits_for_the_watchdog_that_took_its_pages(
    database: str, connection: Connection, sink: Sink, tmp_path: Path
) -> None:
    """Any that stands may: what it sends went out."""
    connection.execute("""
        create function stoker.take_at_once() returns trigger language plpgsql as
        $$ begin new.sending_until = now() + interval '1 min'; new.attempts = 1; return new; end $$;
        create trigger take_at_once before insert on stoker.page_deliveries
        for each row execute function stoker.take_at_once()""")
    configure(database, tmp_path, webhook=sink.url)
    child = subprocess.Popen(DRILL, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    own = Database(Target(database))
    waiting = "select from stoker.page_deliveries where state = 'waiting'"
    for page in (1, 2):
        wait_until(lambda: connection.execute(waiting).rowcount, 30)
        time.sleep(0.3)  # it is being sent
        own.run("page_taken", page=page, channel="webhook")
    said, failed = child.communicate(timeout=30)
    assert (child.returncode, "it failed" in failed) == (0, False)
    assert "the page went out by webhook\nthat it is over was told by webhook\n" in said
    own.close()


def test_a_drill_claims_of_no_channel_that_hangs_that_it_was_told_of_the_end(
    database: str, connection: Connection, tmp_path: Path, monkeypatch: Any
) -> None:
    """It says that nobody was told yet, and by which channel the page is still being sent."""
    for module, name in ((delivery, "TIMEOUT_SECONDS"), (delivery, "_ROUND_SECONDS"), (drills, "_SETTLE_SECONDS")):
        monkeypatch.setattr(module, name, 0.3)
    with http_sink() as hanging:
        hanging.usual = HANG
        settings = WatchdogSettings.of({"webhook": hanging.url, "command": ["true"]})
        own = Database(Target(database))
        steps = [(step.words, step.failures) for step in drills.drill(own, settings, Pager(settings, tmp_path))]
        hanging.release.set()
        wait_until(lambda: "page by webhook" not in {thread.name for thread in threading.enumerate()}, 20)
        own.close()
    assert steps[1:] == [
        ("the page went out by command", ("webhook: it is still sending",)),
        (
            "that it is over was told to nobody yet",
            ("webhook: a watchdog tells it when the page is not being sent any more",),
        ),
    ]
    assert left(connection) == []


def test_a_step_of_a_drill_whose_reply_was_lost_is_repeated(database: str, connection: Connection) -> None:
    """It finds what it did."""
    own = Database(Target(database))
    for _ in range(2):
        own.run("start_drill", name="drill x", rule='{"cron": null, "every": 1}', seconds=60)
    own.run("see_incident", cause="drill x", words="w")
    assert [own.run("open_drill", cause="drill x", channels=["webhook"]) for _ in range(2)] == [[(1,)], [(1,)]]
    assert connection.execute("select count(*) from stoker.page_deliveries").fetchall() == [(1,)]
    assert [own.run("end_drill", name="drill x") for _ in range(2)] == [[(1,)], [(1,)]]
    assert left(connection) == []
    own.close()
