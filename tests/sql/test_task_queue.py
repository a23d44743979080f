"""The view for people: every task once, in plain columns, whatever its state."""

from datetime import timedelta
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row
from tests.sql.factory import claim, ended, fill, release, settle, settle_plain
from tests.sql.oracle import Counts, check

from stoker.sql.database import Database
from stoker.sql.states import TASK_STATES

Connection = psycopg.Connection[Any]
COLUMNS = {"id", "mode", "status", "payload", "priority", "claimed_by", "claimed_at", "attempts", "max_attempts",
           "available_at", "created_at", "updated_at", "finished_at", "error_detail"}  # fmt: skip


def look(connection: Connection, task: int) -> dict[str, Any]:
    with connection.cursor(row_factory=dict_row) as cursor:
        (row,) = cursor.execute("select * from stoker.task_queue where id = %s", (task,)).fetchall()
    return row


def found(stoker: Database, **wanted: Any) -> list[int]:
    """The tasks that list_tasks finds, newest first."""
    usual = {"mode": None, "state": None, "fire": None, "label": None, "kind": None, "limit": 100}
    return [row[0] for row in stoker.run("list_tasks", **{**usual, **wanted})]


def test_a_queued_task(connection: Connection) -> None:
    (task,) = fill(connection, 1, priority=3, max_attempts=9)
    row = look(connection, task)
    assert row.keys() >= COLUMNS
    assert (row["status"], row["mode"], row["priority"], row["payload"], row["attempts"]) == ("queued", "m", 3, {}, 0)
    assert (row["max_attempts"], row["claimed_by"], row["finished_at"], row["suspect"]) == (9, None, None, False)
    assert row["available_at"] == row["created_at"] == row["updated_at"]


def test_a_task_in_the_middle_of_a_span(connection: Connection, stoker: Database, worker: str) -> None:
    ids = fill(connection, 100, span=100)
    claim(stoker, worker, 10)
    assert [look(connection, ids[n])["status"] for n in (0, 9, 10, 99)] == ["in_progress", "in_progress", "queued", "queued"]


@pytest.mark.parametrize("ahead", [False, True])
def test_a_task_in_progress(connection: Connection, stoker: Database, worker: str, ahead: bool) -> None:
    """An attempt is spent when the task starts."""
    (task,) = fill(connection, 1)
    claim(stoker, worker, max_attempts=7, ahead=ahead)
    row = look(connection, task)
    assert (row["status"], str(row["claimed_by"]), row["attempts"], row["max_attempts"]) == (
        "in_progress",
        worker,
        1 - ahead,
        7,
    )
    assert row["updated_at"] == row["claimed_at"] is not None


def test_a_done_task(connection: Connection, stoker: Database, fire: int, worker: str) -> None:
    ids = fill(connection, 3, span=3)
    settle_plain(stoker, claim(stoker, worker, 3))
    row = look(connection, ids[1])
    assert (row["status"], row["attempts"], row["fire"], row["error_kind"], row["claimed_by"]) == ("done", 1, fire, None, None)
    assert row["finished_at"] == row["updated_at"] is not None
    assert row["seconds"] == pytest.approx(0.001)


def test_a_done_task_with_a_result(connection: Connection, stoker: Database, worker: str) -> None:
    (task,) = fill(connection, 1)
    token = claim(stoker, worker).token
    settle(stoker, token, los=[1], his=[1], tries=[1], seconds=[0.5], labels=["red"], results=["[1]"], done=1)
    row = look(connection, task)
    assert (row["result"], row["label"], row["seconds"]) == ([1], "red", 0.5)
    assert (found(stoker, label="red"), found(stoker, label="blue")) == ([task], [])


def test_a_failed_and_an_unknown_task(connection: Connection, stoker: Database, fire: int, worker: str) -> None:
    failed, unknown = fill(connection, 2)
    token = claim(stoker, worker, 2).token
    settle(stoker, token, ended=[ended(failed, "failed"), ended(unknown, "unknown", error_kind="lost")], failed=1)
    row = look(connection, failed)
    assert (row["status"], row["attempts"], row["error_kind"], row["error_detail"]) == ("failed", 1, "E", "words")
    assert row["finished_at"] is not None
    assert row["fire"] == fire
    row = look(connection, unknown)
    assert (row["status"], row["attempts"], row["error_kind"], row["finished_at"]) == ("unknown", 1, "lost", None)
    assert (found(stoker, kind="E"), found(stoker, fire=fire)) == ([failed], [unknown, failed])


def test_a_task_that_waits_for_its_retry(connection: Connection, stoker: Database, worker: str) -> None:
    (task,) = fill(connection, 1)
    settle(stoker, claim(stoker, worker).token, ended=[ended(task, "retry", delay=3600.0)], retried=1)
    row = look(connection, task)
    assert (row["status"], row["attempts"]) == ("queued", 1)
    assert row["available_at"] - row["created_at"] > timedelta(minutes=59)


def test_a_suspect_task(connection: Connection, stoker: Database, worker: str) -> None:
    first, _ = fill(connection, 2, span=2)
    claim(stoker, worker, 2)
    release(stoker, worker)
    row = look(connection, first)
    assert (row["status"], row["attempts"], row["suspect"]) == ("queued", 0, True)


def test_every_task_is_shown_once_in_a_state_that_there_is(connection: Connection, stoker: Database, worker: str) -> None:
    """P1: the view adds up to what the oracle counts, and queue_counts and backlog to what is queued."""
    fill(connection, 40, span=7)
    fill(connection, 3, version=2)
    settle_plain(stoker, claim(stoker, worker, 9))
    token = claim(stoker, worker, 3).token
    settle(stoker, token, ended=[ended(10, "retry"), ended(11, "failed"), ended(12, "unknown")])
    claim(stoker, worker, 5)
    counts = check(connection)
    assert counts == Counts(ready=26, later=1, claimed=5, done=9, failed=1, unknown=1)
    shown = dict(connection.execute("select status, count(*) from stoker.task_queue group by status").fetchall())
    assert shown == {"queued": 27, "in_progress": 5, "done": 9, "failed": 1, "unknown": 1}
    assert shown.keys() <= set(TASK_STATES)
    assert {state: len(found(stoker, state=state)) for state in shown} == shown
    assert len(found(stoker)) == 43
    ((mode, ready, later, due, *_),) = stoker.run("queue_counts")
    assert (mode, ready, later, due) == ("m", 26, 1, 0)
    assert [row[:4] for row in stoker.run("backlog")] == [("m", 1, 23, 1), ("m", 2, 3, 0)]


def test_one_task_is_found_without_reading_the_others(connection: Connection, stoker: Database, worker: str) -> None:
    """P10: history costs a look-up nothing."""
    fill(connection, 30_000, span=1000)
    for _ in range(20):
        settle_plain(stoker, claim(stoker, worker, 1000))
    connection.execute("analyze")
    plan = connection.execute(
        "explain (analyze, buffers, format json) select * from stoker.task_queue where id = 15000"
    ).fetchall()
    top = plan[0][0][0]["Plan"]
    assert top["Actual Rows"] == 1
    assert top["Shared Hit Blocks"] + top["Shared Read Blocks"] < 60
