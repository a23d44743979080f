"""Every attempt of a task is told, however it ended."""

from typing import Any

import psycopg
import pytest
from tests.sql.factory import claim, ended, fill, register, release, settle, settle_plain

from stoker.sql.database import Database

Connection = psycopg.Connection[Any]


def told(stoker: Database, task: int) -> list[tuple[Any, ...]]:
    """(attempt, verdict, kind) of each."""
    return [(row[0], row[3], row[4]) for row in stoker.run("list_attempts", id=task)]


def again(connection: Connection) -> None:
    connection.execute("update stoker.later set available_at = now()")


def test_the_attempts_of_a_task_are_told_in_order_with_the_done_one(
    stoker: Database, connection: Connection, worker: str, fire: int
) -> None:
    """Start, end, worker, outcome, kind of error, and the code that its fire ran."""
    connection.execute("update stoker.fires set code_version = 'abc'")
    (task,) = fill(connection, 1)
    for number, verdict in enumerate(("retry", "snooze", "retry"), start=1):
        attempt = number - (number > 2)
        settle(stoker, claim(stoker, worker).token, ended=[ended(task, verdict, attempt, delay=0.0)])
        again(connection)
        stoker.run("promote_due", limit=10)
    lost = register(stoker, fire)
    claim(stoker, lost, max_attempts=9)
    release(stoker, lost)
    settle_plain(stoker, claim(stoker, worker, max_attempts=9))
    assert told(stoker, task) == [
        (1, "retry", "E"),
        (2, "snooze", "E"),
        (2, "retry", "E"),
        (3, "retry", "worker lost"),
        (4, "done", None),
    ]
    *others, last = stoker.run("list_attempts", id=task)
    assert {row[10] for row in (*others, last)} == {"abc"}
    assert [row[2] for row in others] == [worker, worker, worker, lost]
    first, _, _, gone = others
    assert (first[7] - first[6]).total_seconds() == pytest.approx(0.5)
    assert (gone[6], last[9]) == (None, False)


@pytest.mark.parametrize("verdict", ["held", "cancelled", "unknown", "failed"])
def test_an_attempt_that_left_the_queue_is_told(stoker: Database, connection: Connection, worker: str, verdict: str) -> None:
    (task,) = fill(connection, 1)
    token = claim(stoker, worker).token
    if verdict == "cancelled":
        connection.execute("insert into stoker.cancel_requests (id, actor) values (%s, 'test')", (task,))
    settle(stoker, token, ended=[ended(task, "retry" if verdict == "cancelled" else verdict)])
    assert told(stoker, task) == [(1, verdict, "E")]


def test_of_tasks_done_together_the_mean_is_told(stoker: Database, connection: Connection, worker: str) -> None:
    ids = fill(connection, 5, span=5)
    settle_plain(stoker, claim(stoker, worker, 5))
    for task in (*ids, ids[-1] + 1):
        rows = stoker.run("list_attempts", id=task)
        assert [(row[0], row[3], row[9]) for row in rows] == ([(1, "done", True)] if task in ids else [])
