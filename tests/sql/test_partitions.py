"""The partitions of the tables that grow: there before they are needed, whoever makes them."""

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
from tests.sql.factory import claim, ended, fill, settle, settle_plain
from tests.sql.oracle import Counts, check

from stoker.sql.database import Database
from stoker.sql.enqueue import Door, NewTask, enqueue_many
from stoker.sql.migrate import migrate
from stoker.sql.partitions import PARTITION_IDS, add_partitions
from stoker.sql.target import Target

Connection = psycopg.Connection[Any]
TABLES = ("attempts", "outcomes", "outputs", "tasks")


def partitions(connection: Connection, table: str) -> list[str]:
    rows = connection.execute(
        "select c.relname from pg_inherits i join pg_class c on c.oid = i.inhrelid where i.inhparent = %s::regclass order by 1",
        (f"stoker.{table}",),
    )
    return [row[0].removeprefix(f"{table}_") for row in rows.fetchall()]


def move_to(connection: Connection, newest: int) -> None:
    connection.execute("select setval('stoker.task_ids', %s)", (newest,))


def test_two_partitions_lie_ahead_of_the_newest_id(stoker: Database, connection: Connection) -> None:
    """Of every table that grows, and none is made twice."""
    assert add_partitions(stoker) == 0
    move_to(connection, 3 * PARTITION_IDS - 1)
    assert add_partitions(stoker) == 8
    assert add_partitions(stoker) == 0
    for table in TABLES:
        assert partitions(connection, table) == ["0", "1", "2", "3", "4", "beyond"]


def test_rows_stand_in_the_partition_of_their_id(stoker: Database, connection: Connection, worker: str) -> None:
    """A task, its outcome, its attempts and its output are dropped together one day."""
    move_to(connection, 3 * PARTITION_IDS - 1)
    add_partitions(stoker)
    fill(connection, 2, span=2)
    token = claim(stoker, worker, 2).token
    lo = 3 * PARTITION_IDS
    assert settle(stoker, token, los=[lo], his=[lo], tries=[1], seconds=[0.0], labels=[None], results=[None], done=1,
                  ended=[ended(lo + 1, "failed")], failed=1, outputs=[{"id": lo, "attempt": 1, "output": "said"}])  # fmt: skip
    for table in TABLES:
        homes = connection.execute(f"select distinct tableoid::regclass::text from stoker.{table}").fetchall()
        assert homes == [(f"stoker.{table}_3",)]
    assert check(connection) == Counts(done=1, failed=1)


def test_two_sweeps_at_once_make_each_partition_once(database: str, stoker: Database, connection: Connection) -> None:
    """R54: neither breaks because the other was first."""
    for newest in range(3, 9):
        move_to(connection, newest * PARTITION_IDS)
        gate = threading.Barrier(3)

        def add(_: int, gate: threading.Barrier = gate) -> int:
            own = Database(Target(database))
            own.wait()
            gate.wait()
            added = add_partitions(own)
            own.close()
            return added

        with ThreadPoolExecutor(3) as pool:
            made = sum(pool.map(add, range(3)))
        assert made == (12 if newest == 3 else 4)


def test_a_load_that_ran_ahead_of_the_partitions_stays_in_the_net(
    stoker: Database, connection: Connection, worker: str
) -> None:
    """P1: its rows are held there, claimed and settled there, and hold up no partition that lies ahead."""
    move_to(connection, 4 * PARTITION_IDS - 2)
    ids = enqueue_many(connection, [NewTask("m", n) for n in range(4)], Door())
    assert settle(stoker, claim(stoker, worker).token, ended=[ended(ids[0], "failed")], failed=1)
    assert add_partitions(stoker) == 13
    assert add_partitions(stoker) == 0
    assert partitions(connection, "tasks") == ["0", "1", "2", "5", "6", "beyond"]
    assert partitions(connection, "attempts") == ["0", "1", "2", "4", "5", "6", "beyond"]
    assert partitions(connection, "outcomes") == ["0", "1", "2", "3", "4", "5", "6", "beyond"]
    homes = connection.execute("select id, tableoid::regclass::text, payload from stoker.tasks order by id").fetchall()
    assert homes == [(task, "stoker.tasks_beyond", n) for n, task in enumerate(ids)]
    assert settle_plain(stoker, claim(stoker, worker, 9))
    assert check(connection) == Counts(done=3, failed=1)


@pytest.mark.parametrize("schema", ["stoker.v2"])
def test_partitions_are_made_in_the_schema_asked_for(database: str, connection: Connection, schema: str) -> None:
    """R82: and counted there, whatever another schema has."""
    migrate(database, schema)
    other = Database(Target(database, schema))
    connection.execute("""select setval('"stoker.v2".task_ids', %s)""", (PARTITION_IDS,))
    assert add_partitions(other) == 4
    other.close()
    assert partitions(connection, "tasks") == ["0", "1", "2", "beyond"]
