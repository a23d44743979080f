"""Statements by name: each file is one statement that the server understands, in whatever schema."""

import re
from collections.abc import Iterator
from importlib.resources import files
from typing import Any

import psycopg
import pytest
from psycopg.pq import ExecStatus
from tests.postgres import Cluster, installed_majors, temporary_folder
from tests.sql.factory import claim, full_cycle, open_fire, register
from tests.sql.oracle import Counts, check

from stoker.sql.database import Database
from stoker.sql.enqueue import Door, NewTask, enqueue, enqueue_many
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


@pytest.mark.parametrize("by_index", [False, True])
def test_no_statement_locks_rows_and_chooses_partitions_later(database: str, *, by_index: bool) -> None:
    """PostgreSQL 18.0 to 18.4 may crash: a row that changed while it was locked is looked at again, every subplan is made
    anew for that, and what partitions it chooses is freed with it, before the statement reads on (fixed in commit 1b5dd3a).
    """
    found = {}
    with psycopg.connect(database, autocommit=True, options=Target(database).options(by_index=by_index)) as connection:
        connection.execute("set plan_cache_mode = force_generic_plan")
        for name in NAMES:
            text, types = numbered(name, "stoker")
            if text.startswith(("select", "with", "insert", "update", "delete")):
                connection.pgconn.prepare(name.encode(), text.encode(), types)
                call = f"({', '.join(['null'] * highest_parameter(text))})" if "$1" in text else ""
                ((plan,),) = connection.execute(f"explain (format json) execute {name} {call}".encode()).fetchall()
                found[name] = locks_then_chooses(plan[0]["Plan"])
    assert "claim_batch" in found
    assert not [name for name, bad in found.items() if bad]


def highest_parameter(text: str) -> int:
    return max(int(number) for number in re.findall(r"\$(\d+)", text))


def test_a_producer_needs_two_functions_and_no_table(database: str, cluster: Cluster) -> None:
    """R82: each kind of task, in Python and in SQL, under a role that may call stoker.enqueue and stoker.status."""
    role = "producer_" + psycopg.conninfo.conninfo_to_dict(database)["dbname"]
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(f"create role {role}".encode())
        connection.execute(f"grant usage on schema stoker to {role}".encode())
        connection.execute(f"grant execute on function stoker.enqueue, stoker.status to {role}".encode())
        connection.execute(f"set role {role}".encode())
        kinds: list[dict[str, Any]] = [
            {}, {"key": "k", "key_seconds": 60.0}, {"key": "k"}, {"lane_key": "l"}, {"needs_approval": True},
            {"tags": ("t",), "priority": -1, "max_attempts": 3}, {"key": "k", "retry_terminal": True},
        ]  # fmt: skip
        ids = [enqueue(connection, NewTask("m", number, **kind)) for number, kind in enumerate(kinds)]
        assert ids[1] == ids[2] == ids[6]
        assert connection.execute("select stoker.status('m', 'k')").fetchone() == ("queued",)
        for refused in ("select * from stoker.tasks", "select stoker.reopen(1)", "delete from stoker.ready"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(refused.encode())
        connection.execute("reset role")
        connection.execute(f"drop owned by {role}; drop role {role}".encode())


def locks_then_chooses(plan: dict[str, Any]) -> bool:
    """Whether rows are locked in it, and partitions read by a subplan: only subplans are made anew."""
    parts = list(walk(plan))
    subplans = [part for part in parts if part.get("Parent Relationship") in ("InitPlan", "SubPlan")]
    return any(part["Node Type"] == "LockRows" for part in parts) and any(
        part["Node Type"] in ("Append", "Merge Append")
        and any(re.search(r"_(\d+|beyond)$", leaf.get("Relation Name", "")) for leaf in part["Plans"])
        for top in subplans
        for part in walk(top)
    )


def walk(part: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield part
    for inner in part.get("Plans", ()):
        yield from walk(inner)


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


HOSTILE = """
    create schema hostile;
    create function hostile.now() returns timestamptz language sql as $$ select 'infinity'::timestamptz $$;
    create function hostile.length(text) returns integer language sql as $$ select 0 $$;
    create function hostile.octet_length(text) returns integer language sql as $$ select 1 << 30 $$;
    create function hostile.make_interval(secs double precision) returns interval language sql as $$ select interval '-1 y' $$;
    create function hostile.nextval(regclass) returns bigint language sql as $$ select 1::bigint $$;
    create function hostile.unreadable(text) returns text language sql as $$ select 'hostile' $$;
    create function hostile.equal(text, text) returns boolean language sql as $$ select false $$;
    create operator hostile.= (leftarg = text, rightarg = text, function = hostile.equal);
    create function hostile.before(bigint, bigint) returns boolean language sql as $$ select false $$;
    create operator hostile.<= (leftarg = bigint, rightarg = bigint, function = hostile.before);
    create function hostile.plus(timestamptz, interval) returns timestamptz language sql
        as $$ select 'infinity'::timestamptz $$;
    create operator hostile.+ (leftarg = timestamptz, rightarg = interval, function = hostile.plus);
    create table hostile.tasks (id bigint);
    create table hostile.keys (mode text, key text, id bigint, seconds float8);
    create table hostile.ready (mode text);
    create type hostile.text as (a int);
"""


@pytest.mark.parametrize("schema", ["stoker", 'st"o%ker', "UPPER Case", "\u00e9" * 31 + "x"])
def test_producers_are_not_led_astray_by_a_hostile_search_path(cluster: Cluster, schema: str) -> None:
    """R82, T05: the functions look in pg_catalog only for what they do not name in full, whoever calls them."""
    name = cluster.create()
    migrate(cluster.url(name), schema)
    with psycopg.connect(cluster.url(name), autocommit=True) as connection:
        connection.execute(HOSTILE)
        connection.execute("set search_path = hostile, pg_catalog")
        put = in_schema("select stoker.enqueue('m', '1', key => 'k', available_at => pg_catalog.now())", schema)
        assert connection.execute(put).fetchall() == connection.execute(put).fetchall() == [(1,)]
        assert connection.execute(in_schema("select stoker.status('m', 'k')", schema)).fetchall() == [("queued",)]
        assert connection.execute(in_schema("select stoker.enqueue('m', '[1e10]', lane_key => 'l')", schema)).fetchall()
        assert connection.execute("select count(*) from hostile.tasks").fetchall() == [(0,)]
        connection.execute("set search_path = pg_catalog")
        assert check(connection, schema) == Counts(ready=2)
    cluster.drop(name)


def test_producers_of_two_schemas_never_see_each_other(cluster: Cluster) -> None:
    """R82: keys, lines, modes and limits are each schema's own."""
    name = cluster.create()
    schemas = ["a b", 'a"b']
    for schema in schemas:
        migrate(cluster.url(name), schema)
    with psycopg.connect(cluster.url(name), autocommit=True) as connection:
        connection.execute(in_schema("insert into stoker.modes (mode, version) values ('only', 7)", schemas[0]))
        connection.execute(in_schema("update stoker.installation set payload_limit = 3", schemas[0]))
        put = "select stoker.enqueue('only', '123456', key => 'k', lane_key => 'l')"
        with pytest.raises(psycopg.errors.ProgramLimitExceeded):
            connection.execute(in_schema(put, schemas[0]))
        assert connection.execute(in_schema(put, schemas[1])).fetchall() == [(1,)]
        assert enqueue_many(connection, [NewTask("only", 1, key="k", lane_key="l")], Door(schema=schemas[0])).duplicates == ()
        assert [check(connection, schema).ready for schema in schemas] == [1, 1]
    cluster.drop(name)


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
