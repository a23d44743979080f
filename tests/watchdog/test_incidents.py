"""From an incident to pages that were taken: escalation, acknowledgement, and channels that fail."""

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tests.end_to_end.project import Project
from tests.sinks import DROP, HANG, http_sink
from tests.waiting import wait_until
from tests.watchdog.scenes import Connection, Sink, watch

from stoker.sql.database import Database
from stoker.sql.target import Target
from stoker.watchdog import channels, delivery
from stoker.watchdog.delivery import write_pages

KEEPER = ["/bin/sh", "-c", "cat >> told; echo >> told"]


def dark(connection: Connection) -> None:
    connection.execute("update stoker.installation set created_at = now() - interval '2 h'")


def light(connection: Connection) -> None:
    connection.execute("update stoker.installation set created_at = now()")


def sleep_through(connection: Connection, seconds: float) -> None:
    for table, column in (("incidents", "seen_at"), ("incidents", "paged_at"), ("incidents", "opened_at"), ("pages", "at")):
        connection.execute(f"update stoker.{table} set {column} = {column} - make_interval(secs => {seconds})".encode())


def told(folder: Path) -> list[str]:
    try:
        return [json.loads(line)["action"] for line in (folder / "told").read_text().splitlines() if line]
    except FileNotFoundError:
        return []


def dog(database: str, folder: Path, **keys: Any) -> Any:
    return watch(database, folder, expected_interval="1h", **keys)


def command(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-P", "-m", "stoker.watchdog.cli", *words],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_an_incident_that_nobody_takes_is_escalated_and_then_repeated(
    database: str, connection: Connection, sink: Sink, tmp_path: Path
) -> None:
    """P8: once more to all, marked, and to the second command, which is told nothing before, and of the end too."""
    own = dog(database, tmp_path, webhook=sink.url, escalate_after="30m", repeat="1h", escalate_command=KEEPER)
    dark(connection)
    assert [own.look().sent for _ in range(2)] == [1, 0]
    sleep_through(connection, 1801)
    assert [own.look().sent for _ in range(3)] == [1, 0, 0]
    assert (sink.actions[-1], told(tmp_path)) == (("escalate", "interval main"), ["escalate"])
    sleep_through(connection, 3601)
    assert [own.look().sent for _ in range(2)] == [1, 0]
    light(connection)
    own.look()
    sleep_through(connection, 11)
    assert [own.look().sent for _ in range(2)] == [1, 0]
    assert [action for action, _ in sink.actions] == ["trigger", "escalate", "escalate", "resolve"]
    assert told(tmp_path) == ["escalate", "escalate", "resolve"]
    own.close()


def test_where_there_is_no_room_for_all_each_is_told_in_turn(database: str, connection: Connection, tmp_path: Path) -> None:
    """T18: first pages before all, then what is to be told more loudly, then what was told longest ago."""
    own = watch(database, tmp_path, command=["true"], repeat="30m", escalate_after="3h", pages_per_hour=4)
    connection.execute("insert into stoker.incidents (cause, words) select 'cause ' || n, 'w' from generate_series(1, 10) n")

    def hour() -> list[tuple[int, str]]:
        sleep_through(connection, 3601)
        ((last,),) = connection.execute("select coalesce(max(page), 0) from stoker.pages").fetchall()
        connection.execute("update stoker.incidents set seen_at = now()")
        write_pages(own._database, own._settings, own._pager)
        return connection.execute("select incident, action from stoker.pages where page > %s order by 1", (last,)).fetchall()

    first = [hour() for _ in range(3)]
    assert [[incident for incident, _ in told] for told in first] == [[1, 2, 3, 4], [5, 6, 7, 8], [1, 2, 9, 10]]
    connection.execute("insert into stoker.incidents (cause, words) values ('new', 'w')")
    later = [hour() for _ in range(5)]
    assert (11, "trigger") in later[0]
    assert [[incident for incident, _ in told] for told in later] == [
        [3, 4, 5, 11], [1, 6, 7, 8], [2, 9, 10, 11], [1, 3, 4, 5], [2, 6, 7, 8],
    ]  # fmt: skip
    own.close()


def test_an_incident_that_is_acknowledged_is_silent_until_it_is_over(
    database: str, connection: Connection, sink: Sink, tmp_path: Path
) -> None:
    """By the command line: who, when and why are kept, programs are told at once, and the next one is another incident."""
    keys = {"webhook": sink.url, "escalate_after": "30m", "command": KEEPER, "repeat": "1h"}
    settings = "\n".join(f"{name} = {json.dumps(value)}" for name, value in keys.items())
    (tmp_path / "config.toml").write_text(
        f'[database]\nurl = "{database}"\n[watchdog]\nexpected_interval = "1h"\nquiet = "10s"\n{settings}\n'
    )
    dark(connection)
    assert command(tmp_path, "--once").returncode == 1
    unknown = command(tmp_path, "ack", "slot day", "--why", "x")
    assert (unknown.returncode, '"interval main"' in unknown.stderr) == (1, True)
    assert command(tmp_path, "ack", "interval main", "--why", " ").returncode == 2
    acked = command(tmp_path, "ack", "interval main", "--why", "cron is being repaired", "--who", "ann")
    assert (acked.returncode, acked.stderr) == (0, "")
    assert (sink.pages[-1]["action"], sink.pages[-1]["text"]) == ("acknowledge", "Acknowledged by ann: cron is being repaired")
    again = command(tmp_path, "ack", "interval main", "--why", "me too", "--who", "bob")
    assert (again.returncode, "ann has acknowledged it already: cron is being repaired" in again.stderr) == (1, True)
    own = dog(database, tmp_path, **keys)
    sleep_through(connection, 7300)
    assert [own.look().sent for _ in range(2)] == [0, 0]
    shown = command(tmp_path, "incidents")
    assert (shown.returncode, "acknowledged by ann at " in shown.stdout) == (1, True)
    (one,) = json.loads(command(tmp_path, "incidents", "--json").stdout)
    assert (one["cause"], one["acked_by"], one["ack_reason"]) == ("interval main", "ann", "cron is being repaired")
    assert connection.execute("select actor, action, reason, detail ->> 'cause' from stoker.events").fetchall() == [
        ("ann", "acknowledge", "cron is being repaired", "interval main")
    ]
    light(connection)
    own.look()
    sleep_through(connection, 11)
    own.look()
    dark(connection)
    own.look()
    assert [action for action, _ in sink.actions] == ["trigger", "acknowledge", "resolve", "trigger"]
    assert told(tmp_path) == ["trigger", "acknowledge", "resolve", "trigger"]
    light(connection)
    own.look()
    sleep_through(connection, 11)
    own.look()
    own.close()
    nothing = command(tmp_path, "incidents")
    assert (nothing.returncode, nothing.stdout) == (0, "nothing is wrong\n")
    assert len(json.loads(command(tmp_path, "incidents", "--all", "--json").stdout)) == 2


def test_a_channel_that_took_a_page_does_not_get_it_again_because_another_failed(
    database: str, connection: Connection, sink: Sink, tmp_path: Path
) -> None:
    """Each is tried again on its own, under one delivery id, and what it never heard of is not resolved there."""
    own = dog(database, tmp_path, webhook=sink.url, command=KEEPER, repeat="1h")
    dark(connection)
    sink.status = 503
    for _ in range(3):
        look = own.look()
        assert look.failures == ["webhook: the answer was 503"]
    assert (len(sink.told), told(tmp_path)) == (3, ["trigger"])
    assert len({headers["Stoker-Delivery"] for _, headers, _ in sink.told}) == 1
    sleep_through(connection, 3601)
    assert own.look().failures == ["webhook: the answer was 503"]
    light(connection)
    own.look()
    sleep_through(connection, 11)
    sink.status = 200
    assert own.look().failures == []
    assert told(tmp_path) == ["trigger", "trigger", "resolve"]
    assert [page["number"] for page in sink.pages] == [1, 1, 1, 2, 2]
    own.look()
    assert len(sink.told) == 5
    own.close()


def test_a_page_that_no_channel_took_in_time_gives_way_to_the_newer_one(
    database: str, connection: Connection, sink: Sink, tmp_path: Path
) -> None:
    """A receiver that was down for a day gets one page of an incident, not one of each hour; none of what is over by then."""
    own = dog(database, tmp_path, webhook=sink.url, repeat="1h")
    dark(connection)
    sink.status = 503
    for _ in range(24):
        own.look()
        sleep_through(connection, 3601)
    sink.status, sink.told = 200, []
    for _ in range(3):
        own.look()
    assert [page["number"] for page in sink.pages] == [25]
    own.close()


def test_a_channel_that_hangs_keeps_no_look_and_no_other_channel_back(
    database: str, connection: Connection, tmp_path: Path, monkeypatch: Any
) -> None:
    """It is not asked again while it hangs; what it was told is in doubt until then."""
    monkeypatch.setattr(delivery, "TIMEOUT_SECONDS", 0.5)
    monkeypatch.setattr(delivery, "_ROUND_SECONDS", 0.5)
    with http_sink() as hanging:
        hanging.usual = HANG
        own = dog(database, tmp_path, webhook=hanging.url, command=KEEPER)
        dark(connection)
        began = time.monotonic()
        for _ in range(3):
            assert own.look().failures == ["webhook: is still sending"]
        assert time.monotonic() - began < 10
        assert (len(hanging.told), told(tmp_path)) == (1, ["trigger"])
        hanging.usual = 200
        hanging.release.set()
        connection.execute("update stoker.page_deliveries set sending_until = now() - interval '1 s'")
        wait_until(lambda: own.look().failures == [], 20)
        assert len(hanging.told) >= 2
        assert len(set(hanging.deliveries)) == 1
    own.close()


def test_a_channel_that_may_have_taken_a_page_is_told_that_it_is_over(
    database: str, connection: Connection, tmp_path: Path, monkeypatch: Any
) -> None:
    """It answers too late, or is cut off; and once more to whom it was refused for certain nothing is told."""
    monkeypatch.setattr(channels, "TIMEOUT_SECONDS", 0.3)
    for answer, actions in ((HANG, ["trigger", "resolve"]), (DROP, ["trigger", "resolve"]), (500, ["trigger"])):
        with http_sink() as late:
            late.usual = answer
            own = dog(database, tmp_path, webhook=late.url)
            dark(connection)
            assert len(own.look().failures) == 1
            late.usual = 200
            light(connection)
            sleep_through(connection, 11)
            connection.execute("update stoker.page_deliveries set channel = 'gone' where state = 'waiting'")
            own.look()
            connection.execute("update stoker.page_deliveries set channel = 'webhook'")
            assert own.look().failures == []
            assert [json.loads(one.body)["action"] for one in late.told] == actions
            own.close()


def test_a_try_that_was_cut_off_by_the_death_of_who_sent_is_in_doubt(database: str, connection: Connection) -> None:
    """Whoever takes the page next knows it; and the failure of the one before does not end the try of the next."""
    connection.execute("insert into stoker.incidents (cause, words) values ('slot x', 'w')")
    connection.execute("insert into stoker.pages (incident, action, number, words) values (1, 'trigger', 1, 'w')")
    connection.execute("insert into stoker.page_deliveries (page, channel) values (1, 'webhook')")
    own = Database(Target(database))
    ((*_, first),) = own.run("take_page", channel="webhook", incident=None)
    own.run("page_failed", page=1, channel="webhook", attempt=first, failure="no", in_doubt=False)
    ((*_, second),) = own.run("take_page", channel="webhook", incident=None)
    state = "select attempts, in_doubt, sending_until > now(), failure from stoker.page_deliveries"
    assert connection.execute(state).fetchall() == [(2, False, True, "no")]
    connection.execute("update stoker.page_deliveries set sending_until = now() - interval '1 s'")
    own.run("take_page", channel="webhook", incident=None)
    own.run("page_failed", page=1, channel="webhook", attempt=second, failure="late", in_doubt=True)
    assert connection.execute(state).fetchall() == [(3, True, True, "no")]
    own.close()


def test_a_page_that_does_not_go_out_is_seen(project: Project, sink: Sink, tmp_path: Path) -> None:
    """In stoker status, and among the incidents."""
    project.write(f'[watchdog]\nexpected_interval = "1h"\nwebhook = "{sink.url}"\n')
    project.query("update stoker.installation set created_at = now() - interval '2 h' returning 1")
    sink.status = 500
    done = command(tmp_path, "--once")
    assert (done.returncode, "webhook: the answer was 500" in done.stderr) == (1, True)
    words = "1 page(s) of the watchdog did not go out by webhook, tried 1 time(s): the answer was 500"
    assert words in project.run("status").stdout
    assert project.json("status")["untold_pages"] == [
        {"channel": "webhook", "pages": 1, "attempts": 1, "failure": "the answer was 500"}
    ]
    shown = command(tmp_path, "incidents").stdout
    assert "    webhook did not take its last page, tried 1 time(s): the answer was 500" in shown
    sink.status = 200
    command(tmp_path, "--once")
    assert project.json("status")["untold_pages"] == []


def test_a_channel_with_a_name_of_any_length_is_kept(database: str, connection: Connection, sink: Sink, tmp_path: Path) -> None:
    """It ends in a hash of the whole, so that two long ones stay two."""
    (tmp_path / ("d" * 150)).mkdir()
    names = [f"{'d' * 150}/{'f' * 100}{number}" for number in range(2)]
    for name in names:
        (tmp_path / name).write_text("not a url")
    own = dog(database, tmp_path, webhook=sink.url, apprise=names)
    dark(connection)
    look = own.look()
    assert (look.why, look.sent, len(look.failures)) == ("", 1, 2)
    assert connection.execute(
        "select count(distinct channel), max(length(channel)) from stoker.page_deliveries"
    ).fetchall() == [(3, 200)]
    own.close()
