"""What a task writes while it runs and what follows on it: all of it only under a claim that stands."""

import json
import threading
from typing import Any

import psycopg
import pytest
from tests.sql.factory import claim, ended, fill, release, settle, settling
from tests.sql.oracle import Counts, check
from tests.waiting import wait_until

from stoker.sql.database import Database
from stoker.sql.query import load

Connection = psycopg.Connection[Any]


def follow(parent: int, token: str, **changes: Any) -> dict[str, Any]:
    """The parameters of enqueue_following for one task."""
    row = {
        "mode": "m",
        "payload": {"n": 1},
        "priority": 0,
        "version": 1,
        "max_attempts": None,
        "delay": 0.0,
        "key_seconds": 0.0,
    }
    row |= {"expires_at": None, "tags": None, "lane_key": None, "needs_approval": False, "key": None}
    return {"tasks": json.dumps([{**row, "parent": parent, "token": token, **changes}])}


def done(token: str, task: int = 1) -> tuple[str, dict[str, Any]]:
    """A settlement that ends one task of a claim of one."""
    row = {"los": [task], "his": [task], "tries": [1], "seconds": [0.1], "labels": [None], "results": ["1"], "done": 1}
    return "settle", settling(token, **row)


def finish(database: Database, token: str, name: str = "a", task: int = 1, fraction: float | None = None) -> bool:
    """Store a step."""
    step: dict[str, Any] = {"id": task, "attempt": 1, "name": name, "result": '{"n":1}', "fraction": fraction}
    return bool(database.run("finish_step", token=token, **step))


def test_what_follows_is_enqueued_only_by_the_settlement_that_was_accepted(
    stoker: Database, connection: Connection, worker: str
) -> None:
    """P2: sent again after it was made, or after its claim was released, it enqueues nothing."""
    fill(connection, 2)
    first = claim(stoker, worker).token
    stoker.flush(done(first), ("enqueue_following", follow(1, first)))
    assert check(connection) == Counts(ready=2, done=1)
    assert stoker.flush(done(first), ("enqueue_following", follow(1, first))) == [[], [(0,)]]
    second = claim(stoker, worker).token
    release(stoker, worker)
    assert stoker.flush(done(second, 2), ("enqueue_following", follow(2, second))) == [[], [(0,)]]
    assert check(connection) == Counts(ready=2, done=1)


def test_a_snooze_until_an_instant_is_later_by_the_clock_of_the_database(
    stoker: Database, connection: Connection, worker: str
) -> None:
    """P12: and spends no attempt."""
    fill(connection, 1)
    until = "2040-01-01T05:00:00+05:00"
    assert settle(stoker, claim(stoker, worker).token, ended=[ended(1, "snooze", delay=None, until=until)])
    assert connection.execute("select available_at = '2040-01-01T00:00:00Z', attempts from stoker.later").fetchall() == [
        (True, 0)
    ]


def test_a_cancelled_task_whose_request_was_taken_back_is_cancelled_still(
    stoker: Database, connection: Connection, worker: str
) -> None:
    """P1: the settlement must not fail for it: the handler has been told."""
    fill(connection, 1)
    assert settle(stoker, claim(stoker, worker).token, ended=[ended(1, "cancelled")])
    assert connection.execute("select actor, reason from stoker.cancelled").fetchall() == [("worker", "words")]
    assert check(connection) == Counts(cancelled=1)


def test_a_step_is_stored_once_and_only_for_who_holds_its_task(stoker: Database, connection: Connection, worker: str) -> None:
    """P2: a late step changes 0 rows; one that is sent again is the same."""
    fill(connection, 2)
    token = claim(stoker, worker).token
    assert finish(stoker, token)
    assert finish(stoker, token, fraction=0.5)
    assert not finish(stoker, token, task=2)
    assert connection.execute("select id, name, attempt, result from stoker.steps").fetchall() == [(1, "a", 1, {"n": 1})]
    assert connection.execute("select fraction, words from stoker.progress").fetchall() == [(0.5, "a")]
    assert stoker.run("find_steps", token=token, id=1) == [('{ "a" : {"n":1} }',)]
    assert stoker.run("find_steps", token=token, id=2) == [("{}",)]
    release(stoker, worker)
    assert not finish(stoker, token, "late")
    assert stoker.run("find_steps", token=token, id=1) == []


def test_a_release_waits_for_a_step_that_is_being_stored(stoker: Database, connection: Connection, worker: str) -> None:
    """P2: who claims the task next sees the step, or it was refused."""
    fill(connection, 1)
    token = claim(stoker, worker).token
    step = {"token": token, "id": 1, "attempt": 1, "name": "a", "result": "1", "fraction": None}
    other = Database(stoker.target)
    releasing = threading.Thread(target=release, args=(other, worker))
    with psycopg.connect(stoker.target.url) as stepping:
        stepping.execute(load("finish_step", stoker.target.schema), step)
        releasing.start()
        waits = "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()"
        wait_until(lambda: connection.execute(waits).fetchall() == [(1,)], 10, "a release that waits")
        assert connection.execute("select count(*) from stoker.claims").fetchall() == [(1,)]
    releasing.join()
    other.close()
    assert connection.execute("select count(*) from stoker.claims").fetchall() == [(0,)]


def test_progress_is_written_for_tasks_that_are_held_and_for_no_others(
    stoker: Database, connection: Connection, worker: str
) -> None:
    """P2: the latest stands."""
    fill(connection, 2)
    token = claim(stoker, worker).token

    def tell(task: int, fraction: float) -> None:
        row = {"token": token, "id": task, "attempt": 1, "fraction": fraction, "words": "w"}
        stoker.run("write_progress", words=json.dumps([row]))

    tell(1, 0.25)
    tell(1, 0.5)
    tell(2, 0.5)
    release(stoker, worker)
    tell(1, 0.75)
    assert connection.execute("select id, fraction from stoker.progress").fetchall() == [(1, 0.5)]


@pytest.mark.parametrize("batch", [1, 3])
def test_only_requests_for_tasks_of_these_claims_are_found(
    stoker: Database, connection: Connection, worker: str, batch: int
) -> None:
    """Those of others are for others."""
    fill(connection, 6, span=3)
    mine, theirs = claim(stoker, worker, batch), claim(stoker, worker, batch)
    connection.execute("insert into stoker.cancel_requests (id, actor) select id, 'ann' from stoker.tasks")
    assert [task for (task,) in stoker.run("find_called_off", tokens=[mine.token])] == mine.ids
    both = {task for (task,) in stoker.run("find_called_off", tokens=[mine.token, theirs.token])}
    assert both == {*mine.ids, *theirs.ids}


def test_a_task_whose_follow_up_the_database_refuses_is_failed_and_no_other(
    stoker: Database, connection: Connection, worker: str
) -> None:
    """P1: all that follows on a task comes, or nothing of it; its neighbours' does; the settlement stands."""
    fill(connection, 2)
    first, second = claim(stoker, worker).token, claim(stoker, worker).token
    good, bad = follow(1, first), follow(2, second, mode="")
    kept = follow(2, second)
    rows = [row for one in (good, kept, bad) for row in json.loads(one["tasks"])]
    told = stoker.flush(done(first), done(second, 2), ("enqueue_following", {"tasks": json.dumps(rows)}))
    assert told[-1] == [(1,)]
    assert check(connection) == Counts(ready=1, done=1, failed=1)
    ((kind, words),) = connection.execute("select error_kind, error from stoker.failed where id = 2").fetchall()
    assert kind == "follow-up refused"
    assert words.startswith("the database refused a follow-up: mode must be")
    assert connection.execute("select id, verdict from stoker.attempts").fetchall() == [(2, "failed")]
    assert connection.execute("select done, failed from stoker.workers").fetchall() == [(1, 1)]
