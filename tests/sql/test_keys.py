"""Who has a key when several want it at once: on real PostgreSQL, each waiting for the other's transaction where it must."""

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
from tests.sql.factory import claim, ended, settle
from tests.sql.oracle import check
from tests.waiting import wait_until

from stoker.orchestrator import moves
from stoker.sql.database import Database
from stoker.sql.enqueue import NewTask, enqueue, enqueue_many
from stoker.sql.target import Target

Connection = psycopg.Connection[Any]
AGAIN = NewTask("m", 1, key="k", retry_terminal=True)
NEW = NewTask("m", 2, key="k")


def fail(stoker: Database, worker: str, task: int) -> None:
    """Claim it and fail it."""
    claimed = claim(stoker, worker)
    assert claimed.ids == [task]
    assert settle(stoker, claimed.token, ended=[ended(task, "failed")], failed=1)


def retry(database: str, task: int) -> str:
    """What an operator's retry made of it; what it was when it was left."""
    own = Database(Target(database))
    try:
        (moved,) = moves.move(own, moves.RETRY, [task], {"actor": "ann", "reason": None})
    finally:
        own.close()
    ((_, was, became),) = moved.tasks
    return became or was


def unfinished(connection: Connection) -> list[int]:
    """Tasks of a key that have not ended."""
    text = "select id from stoker.task_queue where key is not null and finished_at is null order by id"
    return [task for (task,) in connection.execute(text).fetchall()]


def behind(database: str, first: Callable[[Connection], Any], second: Callable[[], Any], connection: Connection) -> Any:
    """What ``second`` brings when it begins while the transaction of ``first`` is open, and has to wait for its end."""
    with psycopg.connect(database) as own, ThreadPoolExecutor(1) as pool:
        first(own)
        later: Future[Any] = pool.submit(second)
        waiting = "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()"
        wait_until(lambda: later.done() or connection.execute(waiting).fetchall() != [(0,)])
        own.commit()
        return later.result(30)


def test_a_task_whose_key_went_to_another_and_back_is_not_opened_beside_it(
    database: str, stoker: Database, connection: Connection, worker: str
) -> None:
    """One unfinished task a key, in whatever order they are opened again."""
    first = enqueue(connection, NEW)
    fail(stoker, worker, first)
    second = enqueue(connection, NEW)
    fail(stoker, worker, second)
    assert retry(database, first) == "queued"
    assert retry(database, second) == "replaced"
    assert unfinished(connection) == [first]
    assert enqueue(connection, NEW) == first
    check(connection)


def test_a_task_is_not_opened_beside_one_that_is_being_enqueued_under_its_key(
    database: str, stoker: Database, connection: Connection, worker: str
) -> None:
    """It waits for the transaction, and looks again."""
    first = enqueue(connection, NEW)
    fail(stoker, worker, first)
    became = behind(database, lambda own: enqueue(own, NEW), lambda: retry(database, first), connection)
    assert became == "replaced"
    assert len(unfinished(connection)) == 1
    check(connection)


@pytest.mark.parametrize("bulk", [False, True])
@pytest.mark.parametrize("second", [AGAIN, NEW])
def test_two_who_want_a_failed_task_open_it_once(
    database: str, stoker: Database, connection: Connection, worker: str, second: NewTask, bulk: bool
) -> None:
    """The one who comes later finds it unfinished, and reports it."""
    task = enqueue(connection, AGAIN)
    fail(stoker, worker, task)

    def again() -> int:
        with psycopg.connect(database, autocommit=True) as own:
            return enqueue_many(own, [second])[0] if bulk else enqueue(own, second)

    assert behind(database, lambda own: enqueue(own, AGAIN), again, connection) == task
    assert unfinished(connection) == [task]
    check(connection)


@pytest.mark.parametrize("bulk", [False, True])
def test_a_task_that_is_being_pruned_is_not_reported(
    database: str, stoker: Database, connection: Connection, worker: str, bulk: bool
) -> None:
    """What is gone when the enqueue comes back has no key any more: a new task is made."""
    old = enqueue(connection, NEW)
    fail(stoker, worker, old)

    def prune(own: Connection) -> None:
        for table in ("failed", "tasks", "keys"):
            own.execute(f"delete from stoker.{table} where id = {old}")

    def again() -> int:
        with psycopg.connect(database, autocommit=True) as own:
            return enqueue_many(own, [NEW])[0] if bulk else enqueue(own, NEW)

    new = behind(database, prune, again, connection)
    assert new != old
    assert unfinished(connection) == [new]
    assert connection.execute("select id from stoker.keys").fetchall() == [(new,)]


def test_who_enqueues_the_same_ended_keys_in_bulk_waits_and_never_in_a_circle(
    database: str, stoker: Database, connection: Connection, worker: str
) -> None:
    """R47: each round every key's task is failed, and four take them again, each in an order of its own."""
    keys = [f"k{n}" for n in range(40)]
    errors: list[BaseException] = []
    gate = threading.Barrier(4)

    def write(turn: int) -> None:
        with psycopg.connect(database, autocommit=True) as own:
            own.execute("set deadlock_timeout = '20ms'")
            gate.wait(30)
            ordered = keys if turn % 2 else keys[::-1]
            try:
                enqueue_many(own, [NewTask("m", key=key, retry_terminal=turn > 1) for key in ordered])
            except psycopg.Error as error:
                errors.append(error)

    for _ in range(6):
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(write, range(4)))
        assert not errors
        assert len(unfinished(connection)) == len(keys)
        claimed = claim(stoker, worker, 100)
        assert settle(stoker, claimed.token, ended=[ended(task, "failed") for task in claimed.ids], failed=len(keys))
    check(connection)


def test_keys_and_payloads_mean_the_same_where_backslashes_escape(connection: Connection) -> None:
    """A session with standard_conforming_strings = off: the door lets in and refuses what it does elsewhere."""
    connection.execute("set standard_conforming_strings = off")
    long = '{"path": "C:\\\\temp\\\\[[[", "quote": "\\"", "more": "' + "x" * 300 + "[" * 250 + '"}'
    text = "select stoker.enqueue('m', %s::json, key => %s)"
    ((task,),) = connection.execute(text, (long, "a\\b")).fetchall()
    assert connection.execute("select payload::text, key from stoker.tasks where id = %s", (task,)).fetchall() == [
        (long, "a\\b")
    ]
    for bad in ('{"a": "\\u0000"}', "[" * 201 + "]" * 201, '{"a": 1e999}'):
        with pytest.raises(psycopg.errors.InvalidParameterValue):
            connection.execute(text, (bad, None))
