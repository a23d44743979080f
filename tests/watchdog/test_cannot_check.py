"""R78: what cannot be looked at is neither missed nor in order: one incident and one page, whatever stands in the way."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from tests.postgres import Cluster
from tests.watchdog.scenes import Connection, Sink, open_causes, watch

from stoker.sql.database import Database, DatabaseUnreachableError
from stoker.sql.grants import grant
from stoker.sql.target import Target
from stoker.watchdog.channels import Pager
from stoker.watchdog.settings import WatchdogSettings
from stoker.watchdog.watch import Watch


def with_a_wrong_password(database: str, connection: Connection) -> str:
    connection.execute("drop role if exists stranger")
    connection.execute("create role stranger login password 'right'")
    hba = Path(connection.execute("show hba_file").fetchall()[0][0])
    text = hba.read_text()
    if "stranger" not in text:
        hba.write_text("local all stranger scram-sha-256\nhost all stranger all scram-sha-256\n" + text)
    connection.execute("select pg_reload_conf()")
    return make_conninfo(database, user="stranger", password="wrong")


def with_a_table_that_is_gone(database: str, connection: Connection) -> str:
    connection.execute("drop table stoker.slots")
    return database


def with_no_right(database: str, connection: Connection) -> str:
    connection.execute("drop role if exists reader")
    connection.execute("create role reader login")
    connection.execute("grant usage on schema stoker to reader")
    connection.execute("grant select on all tables in schema stoker to reader")
    return make_conninfo(database, user="reader")


def with_no_right_on_pages(database: str, connection: Connection) -> str:
    return with_all_rights_but(database, connection, "pages")


def with_no_right_on_heartbeats(database: str, connection: Connection) -> str:
    return with_all_rights_but(database, connection, "heartbeats")


def with_all_rights_but(database: str, connection: Connection, table: str) -> str:
    connection.execute("drop role if exists pager")
    connection.execute("create role pager login")
    own = Database(Target(database))
    grant(own, "pager")
    own.close()
    connection.execute(f"revoke insert, update on stoker.{table} from pager".encode())
    return make_conninfo(database, user="pager")


def with_a_lock_on_pages(database: str, connection: Connection) -> str:
    holder = psycopg.connect(database)
    holder.execute("lock table stoker.pages in share row exclusive mode")
    HOLDERS.append(holder)
    return database


def with_a_lock_on_what_is_read(database: str, connection: Connection) -> str:
    holder = psycopg.connect(database)
    holder.execute("lock table stoker.fires")
    HOLDERS.append(holder)
    return database


HOLDERS: list[Connection] = []
WAYS: list[tuple[Callable[[str, Connection], str], str]] = [
    (with_a_wrong_password, "password authentication failed"),
    (with_a_table_that_is_gone, 'relation "stoker.slots" does not exist'),
    (with_no_right, "permission denied for table"),
    (with_a_lock_on_what_is_read, "lock timeout"),
]
LATE_WAYS: list[tuple[Callable[[str, Connection], str], str]] = [
    (with_no_right_on_pages, "permission denied for table pages"),
    (with_no_right_on_heartbeats, "permission denied for table heartbeats"),
    (with_a_lock_on_pages, "lock timeout"),
]


@pytest.mark.parametrize(("way", "words"), WAYS, ids=lambda value: getattr(value, "__name__", None))
def test_what_stands_in_the_way_is_one_incident_of_its_own(
    database: str, connection: Connection, sink: Sink, tmp_path: Path, way: Any, words: str
) -> None:
    """One page with the reason, by whichever way; nothing is opened or resolved meanwhile."""
    connection.execute("insert into stoker.incidents (cause, words, seen_at) values ('slot x', 'w', now() - interval '1 h')")
    url, now = way(database, connection), [1000.0]
    settings = WatchdogSettings.of({"webhook": sink.url, "expected_interval": "1ms", "grace": "1ms"})
    own = Database(Target(url, statement_timeout=2.0, lock_timeout=0.2), patience_seconds=0.5)
    dog = Watch(own, settings, Pager(settings, tmp_path), tmp_path / "state", clock=lambda: now[0])
    for _ in range(4):
        look = dog.look()
        assert look.findings is None
        assert words in look.why
        now[0] += 70
    assert sink.actions == [("trigger", "database")]
    assert words in sink.pages[0]["text"]
    assert "wrong" not in sink.pages[0]["text"]
    assert open_causes(connection) == ["slot x"]
    dog.close()
    while HOLDERS:
        HOLDERS.pop().close()


@pytest.mark.parametrize(("way", "words"), LATE_WAYS, ids=lambda value: getattr(value, "__name__", None))
def test_what_stands_in_the_way_at_the_end_of_each_look_is_told_too(
    database: str, connection: Connection, sink: Sink, tmp_path: Path, way: Any, words: str
) -> None:
    """A look that found something and could not say it is none: what began with the first goes on with each."""
    url, now = way(database, connection), [1000.0]
    settings = WatchdogSettings.of({"webhook": sink.url})
    own = Database(Target(url, statement_timeout=2.0, lock_timeout=0.2), patience_seconds=0.3)
    dog = Watch(own, settings, Pager(settings, tmp_path), tmp_path / "state", clock=lambda: now[0])
    for _ in range(4):
        assert words in dog.look().why
        now[0] += 70
    assert sink.actions == [("trigger", "database")]
    assert words in sink.pages[0]["text"]
    dog.close()
    while HOLDERS:
        HOLDERS.pop().close()
    again = watch(database, tmp_path, clock=lambda: now[0], webhook=sink.url)
    assert again.look().findings == []
    assert sink.actions == [("trigger", "database"), ("resolve", "database")]
    again.close()


def test_a_server_that_hangs_is_taken_for_lost(
    database: str, cluster: Cluster, connection: Connection, sink: Sink, tmp_path: Path
) -> None:
    """Its own timeouts do not come: the process that answers is stopped, as by a disk that does not come back."""
    now = [1000.0]
    settings = WatchdogSettings.of({"webhook": sink.url})
    own = Database(Target(database, connect_timeout=2.0), patience_seconds=0.5, answer_seconds=0.5)
    dog = Watch(own, settings, Pager(settings, tmp_path), tmp_path / "state", clock=lambda: now[0])
    assert dog.look().findings == []
    own.run("clock")
    ((backend,),) = connection.execute(
        "select pid from pg_stat_activity where query like '%%clock%%' and pid <> pg_backend_pid()"
        " and datname = current_database()"
    ).fetchall()
    stopped = [backend, cluster.pid]
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    try:
        for _ in range(3):
            assert dog.look().findings is None
            now[0] += 130
    finally:
        for pid in stopped:
            os.kill(pid, signal.SIGCONT)
    assert sink.actions == [("trigger", "database")]
    assert dog.look().findings == []
    assert sink.actions == [("trigger", "database"), ("resolve", "database")]
    dog.close()


def test_a_statement_whose_answer_does_not_come_is_not_waited_for(database: str) -> None:
    """By the connection's own side, whatever the server was told."""
    own = Database(Target(database, session_options=False), patience_seconds=0.1, answer_seconds=0.3)
    with pytest.raises(DatabaseUnreachableError):
        own.in_transaction(lambda tx: tx.connection.execute("select pg_sleep(30)"), repeatable=True)
    assert own.run("clock")
    own.close()


def test_the_database_that_is_away_can_be_acknowledged_and_escalates(tmp_path: Path, sink: Sink) -> None:
    """By the file that keeps it."""
    now = [1000.0]
    nowhere = "host=127.0.0.1 port=1 dbname=x"
    keys = {"webhook": sink.url, "escalate_after": "10m", "repeat": "1h"}
    dog = watch(nowhere, tmp_path, clock=lambda: now[0], **keys)
    for seconds in (0, 130, 500, 60):
        now[0] += seconds
        dog.look()
    assert [action for action, _ in sink.actions] == ["trigger", "escalate"]
    text = f'[database]\nurl = "{nowhere}"\n[watchdog]\nwebhook = "{sink.url}"\n'
    (tmp_path / "config.toml").write_text(text)
    command = [sys.executable, "-P", "-m", "stoker.watchdog.cli", "--state", "state", "ack", "database", "--why", "moving"]
    done = subprocess.run([*command, "--who", "ann"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert subprocess.run(command, cwd=tmp_path, capture_output=True, check=False).returncode == 1
    now[0] += 7300
    dog.look()
    assert [action for action, _ in sink.actions] == ["trigger", "escalate", "acknowledge"]
    dog.close()


def test_an_outage_is_one_incident_not_one_of_each_thing_that_waited_for_it(
    database: str, connection: Connection, sink: Sink, tmp_path: Path
) -> None:
    """R43: forty-five minutes away, forty-five slots and a heartbeat; then somebody has the grace to decide and to beat."""
    now = [10_000.0]
    keys = {"webhook": sink.url, "quiet": "1ms"}
    dog = watch(database, tmp_path, clock=lambda: now[0], **keys)
    away = watch("host=127.0.0.1 port=1 dbname=x", tmp_path, clock=lambda: now[0], **keys)
    rule = '{"cron": null, "every": 60, "timezone": "UTC", "grace": 600}'
    connection.execute(
        "insert into stoker.schedules (schedule, rule, since) values ('s', %s, now() - interval '46 min')", (rule,)
    )
    for _ in range(9):
        away.look()
        now[0] += 300
    assert dog.look().findings == []
    assert sink.actions == [("trigger", "database"), ("resolve", "database")]
    now[0] += 660
    connection.execute("update stoker.schedules set since = since - interval '11 min'")
    assert [one.cause for one in dog.look().findings or ()] == ["slot s"]
    dog.close()
    away.close()
