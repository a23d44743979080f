"""Incidents and pages on a real database, with real HTTP and SMTP servers on loopback."""

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.postgres import Cluster
from tests.watchdog.scenes import Connection, Sink

from stoker.sql.database import Database
from stoker.sql.target import Target
from stoker.watchdog.channels import Pager
from stoker.watchdog.settings import WatchdogSettings
from stoker.watchdog.watch import Watch

WATCHES: list[Watch] = []


@pytest.fixture(autouse=True)
def let_go() -> Iterator[None]:
    yield
    while WATCHES:
        WATCHES.pop().close()


def watch(database: str, folder: Path, name: str = "state", clock: Any = None, **keys: Any) -> Watch:
    settings = WatchdogSettings.of({"expected_interval": "1h", "quiet": "10s", **keys})
    own = Database(Target(database, connect_timeout=1.0), patience_seconds=0.2)
    WATCHES.append(Watch(own, settings, Pager(settings, folder), folder / name, **({"clock": clock} if clock else {})))
    return WATCHES[-1]


def dark(connection: Connection) -> None:
    connection.execute("update stoker.installation set created_at = now() - interval '2 h'")


def light(connection: Connection) -> None:
    connection.execute("update stoker.installation set created_at = now()")


def sleep_through(connection: Connection, seconds: float) -> None:
    for table, column in (("incidents", "seen_at"), ("incidents", "paged_at"), ("incidents", "opened_at"), ("pages", "at")):
        connection.execute(f"update stoker.{table} set {column} = {column} - make_interval(secs => {seconds})".encode())


def test_a_missed_fire_is_paged_once_repeated_and_resolved_once(
    database: str, connection: Connection, sink: Sink, tmp_path: Path
) -> None:
    """P8, O7: one incident, one page till it is repeated, one resolution with the time it lasted."""
    dog = watch(database, tmp_path, webhook=sink.url, repeat="1h")
    assert dog.look().sent == 0
    dark(connection)
    assert dog.look().sent == 1
    assert [dog.look().sent for _ in range(3)] == [0, 0, 0]
    sleep_through(connection, 3700)
    assert dog.look().sent == 1
    light(connection)
    assert dog.look().sent == 0
    sleep_through(connection, 11)
    assert dog.look().sent == 1
    assert [dog.look().sent for _ in range(3)] == [0, 0, 0]
    assert [(page["action"], page["cause"], page["number"]) for page in sink.pages] == [
        ("trigger", "interval main", 1),
        ("trigger", "interval main", 2),
        ("resolve", "interval main", 3),
    ]
    assert sink.pages[-1]["text"].startswith("Over, after 1h1m")
    assert connection.execute("select count(*) from stoker.heartbeats where component = 'watchdog'").fetchall() == [(1,)]


def test_what_comes_and_goes_is_one_incident(database: str, connection: Connection, sink: Sink, tmp_path: Path) -> None:
    """R79: a hundred flips, two watchdogs: one page, one resolution."""
    dogs = [watch(database, tmp_path, str(number), webhook=sink.url) for number in range(2)]
    for number in range(100):
        light(connection) if number % 2 else dark(connection)
        dogs[number % 3 % 2].look()
    sleep_through(connection, 11)
    light(connection)
    for dog in dogs:
        dog.look()
    assert [page["action"] for page in sink.pages] == ["trigger", "resolve"]
    assert connection.execute("select count(*) from stoker.incidents").fetchall() == [(1,)]


def test_two_watchdogs_at_the_same_moment_send_one_page(
    database: str, connection: Connection, sink: Sink, tmp_path: Path
) -> None:
    """R79: whoever takes it sends it."""
    dark(connection)
    dogs, gate = [watch(database, tmp_path, str(number), webhook=sink.url) for number in range(4)], threading.Barrier(4)

    def look(dog: Watch) -> None:
        gate.wait()
        dog.look()

    threads = [threading.Thread(target=look, args=(dog,)) for dog in dogs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(sink.pages) == 1


def test_a_page_that_fails_is_tried_again_and_the_failure_is_seen(
    database: str, connection: Connection, sink: Sink, tmp_path: Path
) -> None:
    """A 500 is no page; nor is a redirect, which is not followed."""
    dark(connection)
    dog = watch(database, tmp_path, webhook=f"{sink.url}/hook")
    for status in (500, 302):
        sink.status = status
        look = dog.look()
        assert (look.sent, len(look.failures)) == (0, 1)
    assert connection.execute("select attempts, failure, state from stoker.page_deliveries").fetchall() == [
        (2, "the answer was 302", "waiting")
    ]
    sink.status = 204
    assert [dog.look().sent for _ in range(2)] == [1, 0]
    assert {path for path, _, _ in sink.told} == {"/hook"}
    assert len({headers["Stoker-Delivery"] for _, headers, _ in sink.told}) == 1


def test_pages_are_capped_by_the_hour(database: str, connection: Connection, sink: Sink, tmp_path: Path) -> None:
    """T18: however many causes there are, and whenever they come up within the hour."""
    dog, sent = watch(database, tmp_path, webhook=sink.url, pages_per_hour=5), []
    for first, last in ((1, 3), (4, 10_000)):
        connection.execute(
            "insert into stoker.incidents (cause, words) select 'cause ' || n, 'w' from generate_series(%s::int, %s::int) n",
            (first, last),
        )
        sent += [dog.look().sent, dog.look().sent]
    assert sent == [3, 0, 2, 0]


def test_a_database_that_is_away_is_told_and_resolved(cluster: Cluster, tmp_path: Path, sink: Sink) -> None:
    """R43, R78: "cannot check" is neither missed nor in order; one alert, one resolution; the file remembers."""
    now = [1000.0]
    url = cluster.url(cluster.create("template1"))
    dog = watch("host=127.0.0.1 port=1 dbname=x", tmp_path, clock=lambda: now[0], webhook=sink.url)
    assert (dog.look().findings, dog.look().sent) == (None, 0)
    now[0] += 130
    assert dog.look().sent == 1
    again = watch("host=127.0.0.1 port=1 dbname=x", tmp_path, clock=lambda: now[0], webhook=sink.url)
    now[0] += 60
    assert again.look().sent == 0
    now[0] += 3700
    assert again.look().sent == 1
    assert "Cannot check: the database has not answered" in sink.pages[0]["text"]
    empty = watch(url, tmp_path, clock=lambda: now[0], webhook=sink.url)
    assert empty.look().findings is None


def test_that_the_database_is_back_is_told_once(database: str, tmp_path: Path, sink: Sink) -> None:
    """With how long it was away."""
    (tmp_path / "state").write_text(json.dumps({"since": 1000.0, "paged": 1200.0, "pages": 1, "told": ["webhook"]}))
    dog = watch(database, tmp_path, clock=lambda: 4600.0, webhook=sink.url)
    assert dog.look().sent == 1
    assert dog.look().sent == 0
    assert (sink.pages[0]["action"], sink.pages[0]["cause"]) == ("resolve", "database")
    assert sink.pages[0]["text"].startswith("Over, after 1h")


@pytest.mark.parametrize("text", ["", "{", "[]", "\0" * 20, "null"])
def test_a_torn_file_begins_anew(database: str, tmp_path: Path, text: str) -> None:
    """R74: it is never read as "all is well"."""
    (tmp_path / "state").write_text(text)
    assert watch(database, tmp_path).look().findings == []


def test_the_dead_mans_switch_is_told_of_each_look_that_was_one(database: str, sink: Sink, tmp_path: Path) -> None:
    """R77: start and success; a look that could not look is no success."""
    watch(database, tmp_path, ping=f"{sink.url}/p").look()
    watch("host=127.0.0.1 port=1 dbname=x", tmp_path, ping=f"{sink.url}/p").look()
    assert [path for path, _, _ in sink.told] == ["/p/start", "/p", "/p/start", "/p/fail"]


def test_the_command_line_looks_once_and_tells_the_difference(
    database: str, connection: Connection, sink: Sink, tmp_path: Path
) -> None:
    """R78: 0 all is well, 1 wrong, 75 cannot check, 2 a file that cannot be used; a test page is marked."""

    def run(*words: str, url: str = database) -> subprocess.CompletedProcess[str]:
        text = (
            f'[database]\nurl = "{url}"\nconnect_timeout = "1s"\n[watchdog]\nexpected_interval = "1h"\nwebhook = "{sink.url}"\n'
        )
        (tmp_path / "config.toml").write_text(text)
        command = [sys.executable, "-P", "-m", "stoker.watchdog.cli", *words]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)

    assert run("--once").returncode == 0
    dark(connection)
    wrong = run("--once")
    assert (wrong.returncode, wrong.stdout[:62]) == (1, "Orchestrator did not fire. The fleet is dark. Lane main: a fir")
    assert run("--once", url="postgresql://127.0.0.1:1/x").returncode == 75
    assert run("--test-page").returncode == 0
    assert [page["cause"] for page in sink.pages] == ["interval main", "test"]
    (tmp_path / "config.toml").write_text("[watchdog]\nevery = 5\n")
    refused = subprocess.run(
        [sys.executable, "-P", "-m", "stoker.watchdog.cli", "--once"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert refused.returncode == 2
    assert "every" in refused.stderr
