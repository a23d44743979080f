"""Migrations: forward only, all or nothing, never waiting long, never edited."""

import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from typing import Any

import psycopg
import pytest
from tests.postgres import Cluster
from tests.waiting import wait_until

from stoker.sql import embedded
from stoker.sql import migrate as room
from stoker.sql.database import DatabaseUnreachableError
from stoker.sql.migrate import Migration, MigrationError, SchemaVersionError, check_version, known, migrate, preview, version

Connection = psycopg.Connection[Any]
ALL = [one.name for one in known()]
NEXT = known()[-1].number + 1
TABLES = (
    "select count(*) from pg_class c join pg_namespace n on n.oid = c.relnamespace where nspname = 'stoker' and relkind = 'r'"
)


@pytest.fixture
def empty(cluster: Cluster) -> Iterator[str]:
    """The URL of a database without stoker."""
    name = cluster.create()
    yield cluster.url(name)
    cluster.drop(name)


def newer(monkeypatch: pytest.MonkeyPatch, text: str) -> Migration:
    """A stoker that has one migration more."""
    added, before = Migration(NEXT, f"{NEXT:04}_next.sql", text), known()
    monkeypatch.setattr(room, "known", lambda: [*before, added])
    return added


def state(url: str) -> tuple[int, list[Any]]:
    """The version, and every column of every table."""
    with psycopg.connect(url, autocommit=True) as connection:
        columns = "select table_name, column_name from information_schema.columns where table_schema = 'stoker' order by 1, 2"
        return version(connection, "stoker"), connection.execute(columns).fetchall()


def test_migrating_twice_is_doing_nothing_the_second_time(empty: str) -> None:
    """The names of what was applied are the answer."""
    assert migrate(empty) == ALL
    before = state(empty)
    assert migrate(empty) == []
    assert state(empty) == before


def test_a_changed_migration_is_refused_by_its_checksum(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An applied migration must never be edited; the text names it and says what to do."""
    (first, *rest) = known()
    monkeypatch.setattr(room, "known", lambda: [Migration(first.number, first.name, first.text + "-- more"), *rest])
    before = state(database)
    with pytest.raises(MigrationError, match=f"{first.name} .*checksum differs.*never be edited"):
        migrate(database)
    assert state(database) == before


@pytest.mark.parametrize("reads", ["stoker.tasks", "stoker.migrations"])
def test_an_idle_reader_makes_it_abort_in_time_and_it_works_afterwards(
    database: str, monkeypatch: pytest.MonkeyPatch, reads: str
) -> None:
    """R59: nothing was changed, and nobody queued behind it meanwhile for longer than the timeout."""
    newer(monkeypatch, f"create table stoker.more (a int); alter table {reads} add column added text;")
    before = state(database)
    with psycopg.connect(database) as reader:
        reader.execute(f"select from {reads}")
        began = time.monotonic()
        with pytest.raises(MigrationError, match=r"another session holds a lock .* more than 0.2 s; nothing was changed"):
            migrate(database, lock_timeout=0.2)
        assert time.monotonic() - began < 3
        assert state(database) == before
    assert migrate(database, lock_timeout=0.2) == [f"{NEXT:04}_next.sql"]
    assert state(database)[0] == NEXT


def test_who_takes_the_tables_in_another_order_goes_first(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """R59: a claim holds ready and wants tasks, while the migration holds tasks and wants ready: no deadlock, no long wait."""
    newer(monkeypatch, "alter table stoker.tasks add column a int; alter table stoker.ready add column b int;")
    waiting = (
        "select from pg_locks l join pg_stat_activity a using (pid) where not granted and application_name = 'stoker migrate'"
    )
    with (
        psycopg.connect(database) as claimer,
        psycopg.connect(database, autocommit=True) as other,
        ThreadPoolExecutor(1) as pool,
    ):
        claimer.execute("select from stoker.ready")
        migrating = pool.submit(migrate, database, lock_timeout=30.0)
        wait_until(lambda: other.execute(waiting).rowcount, message="the migration did not get to its lock")
        began = time.monotonic()
        claimer.execute("select from stoker.tasks")
        assert time.monotonic() - began < 0.9
        claimer.commit()
        assert migrating.result() == [f"{NEXT:04}_next.sql"]


def test_of_migrators_at_once_one_applies_each_and_the_others_find_it_done(empty: str) -> None:
    """From nothing, several times over: no error, no migration twice."""
    gate = threading.Barrier(4)

    def race(_: int) -> list[str]:
        gate.wait()
        return migrate(empty)

    for _ in range(3):
        with ThreadPoolExecutor(4) as pool:
            assert sorted(chain.from_iterable(pool.map(race, range(4)))) == ALL
        with psycopg.connect(empty, autocommit=True) as connection:
            assert version(connection, "stoker") == known()[-1].number
            connection.execute("drop schema stoker cascade")


@pytest.mark.parametrize("applied", [0, NEXT - 1])
def test_the_preview_does_what_migrating_does(empty: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Any, applied: int) -> None:
    """Run through psql, statement by statement; afterwards nothing is left to be applied."""
    if applied:
        migrate(empty)
    newer(monkeypatch, "create table stoker.more (a int);")
    assert psql(empty, preview(applied, "stoker")) == ""
    there = state(empty)
    assert migrate(empty) == []
    with psycopg.connect(empty, autocommit=True) as connection:
        connection.execute("drop schema stoker cascade")
    migrate(empty)
    assert state(empty) == there
    assert preview(NEXT, "stoker") == ""


def test_a_preview_that_breaks_leaves_nothing(empty: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each migration in it is a transaction, as when it is applied."""
    migrate(empty)
    newer(monkeypatch, "create table stoker.more (a int); select 1 / 0;")
    before = state(empty)
    assert "division by zero" in psql(empty, preview(NEXT - 1, "stoker"))
    assert state(empty) == before


def psql(url: str, text: str) -> str:
    """Run a script as an operator would; what was complained of."""
    program = embedded.find_binaries().psql
    if not program.exists():
        pytest.skip("no psql is installed here")
    command = [str(program), "-X", "-q", "-v", "ON_ERROR_STOP=1", url]
    return subprocess.run(command, input=text, text=True, capture_output=True, check=False).stderr


def test_what_stands_between_stoker_and_its_schema_is_said(empty: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not there, too old, too new: each with what to do."""
    with psycopg.connect(empty, autocommit=True) as connection:
        assert version(connection, "stoker") == 0
        with pytest.raises(SchemaVersionError, match=r"no stoker in it\. Run: stoker migrate"):
            check_version(connection, "stoker")
        migrate(empty)
        check_version(connection, "stoker")
        connection.execute("insert into stoker.migrations (number, name, checksum) values (9999, 'x', 'x')")
        with pytest.raises(SchemaVersionError, match=r"at version 9999, newer than this stoker .* Install the newer stoker"):
            check_version(connection, "stoker")
        connection.execute("delete from stoker.migrations where number = 9999")
        newer(monkeypatch, "select 1")
        with pytest.raises(SchemaVersionError, match=f"at version {NEXT - 1}, this stoker needs {NEXT}. Run: stoker migrate"):
            check_version(connection, "stoker")


def test_a_migration_that_breaks_leaves_nothing(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One transaction each; what went before it stays."""
    newer(monkeypatch, "create table stoker.more (a int); alter table stoker.tasks add column b int; select 1 / 0;")
    before = state(database)
    with pytest.raises(MigrationError, match="22012: division by zero; nothing was changed"):
        migrate(database)
    assert state(database) == before


@pytest.mark.parametrize("at", [0, 1])
def test_a_migrator_that_is_killed_half_way_leaves_nothing(empty: str, monkeypatch: pytest.MonkeyPatch, at: int) -> None:
    """R59: its backend is terminated in the middle; what it had begun is undone, and migrating again works."""
    if at:
        migrate(empty)
    before = state(empty)[0]
    with monkeypatch.context() as patch:
        held, first = "select pg_advisory_xact_lock(7);", known()[0]
        if at:
            newer(patch, f"create table stoker.more (a int); {held}")
        else:
            patch.setattr(room, "known", lambda: [Migration(first.number, first.name, first.text + held)])
        with psycopg.connect(empty) as holder, psycopg.connect(empty, autocommit=True) as other, ThreadPoolExecutor(1) as pool:
            holder.execute("select pg_advisory_xact_lock(7)")
            killed = pool.submit(migrate, empty)
            waiting = "select pid from pg_stat_activity where application_name = 'stoker migrate' and wait_event = 'advisory'"
            wait_until(lambda: other.execute(waiting).fetchone(), message="the migration did not get to its middle")
            other.execute("select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'stoker migrate'")
            with pytest.raises(DatabaseUnreachableError):
                killed.result()
            wait_until(lambda: other.execute(waiting).fetchone() is None, message="the backend lives on")
            assert (tables(other) == ["migrations"]) == (not at)
            assert "more" not in tables(other)
    assert state(empty)[0] == before
    assert migrate(empty) == ([] if at else ALL)


def tables(connection: Connection) -> list[str]:
    rows = connection.execute("select relname from pg_class where relnamespace = 'stoker'::regnamespace and relkind = 'r'")
    return [row[0] for row in rows.fetchall()]


def test_a_database_that_cannot_be_reached_is_said_to_be(tmp_path: Any) -> None:
    """R15: not a MigrationError: nothing is wrong with the schema."""
    with pytest.raises(DatabaseUnreachableError):
        migrate(f"postgresql:///nowhere?host={tmp_path}")


def test_migrations_are_numbered_and_no_number_stands_twice() -> None:
    """Forward only, in order."""
    numbers = [one.number for one in known()]
    assert numbers == sorted(set(numbers))
    assert numbers[0] == 1
