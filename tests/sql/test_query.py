"""Statements by name: each file is one statement that the server understands, in whatever schema."""

import re
from importlib.resources import files
from typing import Any

import psycopg
import pytest
from psycopg.pq import ExecStatus
from tests.postgres import Cluster, installed_majors, temporary_folder
from tests.sql.factory import claim, full_cycle, open_fire, register
from tests.sql.oracle import Counts, check

from stoker.sql.database import Database
from stoker.sql.enqueue import Door, NewTask, enqueue_many
from stoker.sql.migrate import migrate
from stoker.sql.query import in_schema, load, quote_identifier
from stoker.sql.target import Target

NAMES = sorted(entry.name[:-4] for entry in (files("stoker.sql") / "queries").iterdir() if entry.name.endswith(".sql"))
ODD = [
    'st"o%ker',
    "it's.here",
    "with space",
    "stoker.v2",
    "x' stoker.y",
    "%s %(n)s %%",
    ":name",
    "Größe",
    "a\\b",
    "$1",
    "a$$b$q$",
    "UPPER Case",
    "\u00e9" * 31 + "x",
    "-- ;",
    "stoker",
]
# What the server cannot infer is what the program sends as a number.
_INTEGER = 20


@pytest.mark.parametrize("schema", ODD)
def test_every_statement_is_one_that_the_server_understands_in_an_odd_schema(database: str, schema: str) -> None:
    """R82: the extended protocol refuses a file of two statements; no name of a schema needs care."""
    migrate(database, schema)
    with psycopg.connect(database, autocommit=True, options="-c search_path=pg_catalog") as connection:
        for name in NAMES:
            text, types = numbered(name, schema)
            result = connection.pgconn.prepare(b"", text.encode(), types)
            assert result.status == ExecStatus.COMMAND_OK, f"{name}: {result.error_message.decode()}"


def numbered(name: str, schema: str) -> tuple[str, list[int]]:
    """A statement as the server takes it, and the types of its parameters (0: to be inferred)."""
    names: list[str] = []

    def number(match: re.Match[str]) -> str:
        if match[1] is None:
            return "%"
        if match[1] not in names:
            names.append(match[1])
        return f"${names.index(match[1]) + 1}"

    text = str(load(name, schema))
    if "%(" in load(name, "stoker"):
        text = re.sub(r"%%|%\((\w+)\)s", number, text)
    return text, [_INTEGER if one in ("max_attempts", "count", "limit", "batch", "chunk") else 0 for one in names]


@pytest.mark.parametrize("schema", ODD)
def test_a_full_cycle_works_in_an_odd_schema(cluster: Cluster, schema: str) -> None:
    """R82: migrate, enqueue, claim, settle, retry, release, partitions and the view."""
    name = cluster.create()
    full_cycle(cluster.url(name), schema)
    cluster.drop(name)


def test_two_schemas_in_one_database_never_see_each_other(database: str, stoker: Database, worker: str) -> None:
    """R82: tasks, claims, fires and ids are each schema's own."""
    migrate(database, "stoker.")
    other = Database(Target(database, "stoker."))
    with stoker.raw() as connection:
        enqueue_many(connection, [NewTask("m")] * 3, Door())
        assert enqueue_many(connection, [NewTask("m")] * 2, Door(schema="stoker.")) == [1, 2]
        assert claim(stoker, worker, 9).ids == [1, 2, 3]
        assert claim(other, worker, 9).is_fenced
        assert claim(other, register(other, open_fire(other)), 9).ids == [1, 2]
        assert check(connection) == Counts(claimed=3)
        assert check(connection, "stoker.") == Counts(claimed=2)
    other.close()


@pytest.mark.parametrize("major", installed_majors())
def test_a_full_cycle_works_on_every_major_version(major: int) -> None:
    """PostgreSQL 15 and up."""
    with temporary_folder() as folder:
        cluster = Cluster(folder / "pg", major)
        try:
            cluster.start()
            with psycopg.connect(cluster.url()) as connection:
                assert connection.info.server_version // 10_000 == major
            full_cycle(cluster.url(), "stoker")
        finally:
            cluster.stop()


def test_a_statement_that_does_not_exist_is_named() -> None:
    """A misspelt name fails at its first use, whatever the parameters."""
    with pytest.raises(FileNotFoundError, match="no_such_thing"):
        load("no_such_thing", "stoker")


def test_only_the_schemas_own_name_is_replaced() -> None:
    """A schema's name may look like what is replaced, and other words may hold the word."""
    text = "select stoker.a, my_stoker.b, 'stoker.c'::regclass, 'the stoker. of all', stokers.d"
    there: Any = in_schema(text, "stoker.x")
    assert there == """select "stoker.x".a, my_stoker.b, '"stoker.x".c'::regclass, 'the "stoker.x". of all', stokers.d"""
    assert quote_identifier('a"b') == '"a""b"'
