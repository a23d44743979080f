"""Settling: one accepted settlement per task and attempt, and every verdict in its place."""

import uuid
from typing import Any

import psycopg
import pytest
from tests.sql.factory import (
    claim,
    claiming,
    ended,
    fill,
    register,
    release,
    settle,
    settle_plain,
    settling,
    settling_plain,
)
from tests.sql.oracle import Counts, check

from stoker.sql.database import Database

Connection = psycopg.Connection[Any]
TABLES = ("ready", "later", "claims", "outcomes", "attempts", "outputs", "failed", "unknown", "workers")


def everything(connection: Connection) -> dict[str, list[Any]]:
    """Every row of the queue."""
    return {table: connection.execute(f"select * from stoker.{table} order by 1, 2").fetchall() for table in TABLES}


def counters(connection: Connection) -> tuple[int, int, int, float]:
    """What the only worker is said to have done: done, failed, retried, and the seconds it was busy."""
    row = connection.execute("select done, failed, retried, round(busy_seconds::numeric, 3)::float8 from stoker.workers")
    return row.fetchone() or (0, 0, 0, 0.0)


def test_plain_successes_become_outcome_spans_and_the_claim_ends(
    stoker: Database, connection: Connection, fire: int, worker: str
) -> None:
    """P2: outcomes carry the token, the fire, the worker and the attempt; no row a task."""
    fill(connection, 8, span=4)
    claimed = claim(stoker, worker, 6)
    assert settle_plain(stoker, claimed)
    rows = connection.execute("select lo, hi, fire, worker::text, token::text, attempt from stoker.outcomes order by 1")
    assert rows.fetchall() == [(1, 4, fire, worker, claimed.token, 1), (5, 6, fire, worker, claimed.token, 1)]
    assert counters(connection) == (6, 0, 0, 0.006)
    assert check(connection) == Counts(ready=2, done=6)


@pytest.mark.parametrize("plain", [True, False])
def test_a_second_settlement_gets_no_row_and_changes_nothing(
    stoker: Database, connection: Connection, worker: str, plain: bool
) -> None:
    """P2: whatever its parameters, also counters and output."""
    fill(connection, 2, span=2)
    claimed = claim(stoker, worker, 2)
    whole: dict[str, Any] = {
        "los": [1],
        "his": [2],
        "tries": [1],
        "seconds": [0.1],
        "labels": [None],
        "results": [None],
        "done": 2,
    }
    late: dict[str, Any] = {
        "outputs": [{"id": 1, "attempt": 1, "output": "late"}],
        "ended": [ended(2, "failed")],
        "free_los": [1],
        "free_his": [1],
        "free_attempts": [0],
        "failed": 1,
        "busy": 9.0,
    }
    assert settle(stoker, claimed.token, **whole)
    before = everything(connection)
    assert not (settle_plain(stoker, claimed) if plain else settle(stoker, claimed.token, **{**whole, **late}))
    assert everything(connection) == before
    assert check(connection) == Counts(done=2)


@pytest.mark.parametrize("plain", [True, False])
def test_a_settlement_after_the_release_gets_no_row_and_changes_nothing(
    stoker: Database, connection: Connection, worker: str, plain: bool
) -> None:
    """P2: the late write of a worker that was given up is stale."""
    fill(connection, 2, span=2)
    claimed = claim(stoker, worker, 2)
    assert release(stoker, worker) == (0, 0, 0, 0, 2)
    before = everything(connection)
    assert not (settle_plain(stoker, claimed) if plain else settle(stoker, claimed.token, ended=[ended(1, "failed")]))
    assert everything(connection) == before
    assert check(connection) == Counts(ready=2)


@pytest.mark.parametrize("plain", [True, False])
def test_anothers_claim_on_the_same_tasks_is_not_settled_by_the_old_token(
    stoker: Database, connection: Connection, fire: int, worker: str, plain: bool
) -> None:
    """P2: a task id alone is no guard."""
    fill(connection, 1)
    old = claim(stoker, worker)
    release(stoker, worker)
    claim(stoker, register(stoker, fire))
    assert not (settle_plain(stoker, old) if plain else settle(stoker, old.token, ended=[ended(1, "failed")]))
    assert check(connection) == Counts(claimed=1)


def test_a_partial_settlement_shrinks_the_claim_and_its_step_guards_against_repetition(
    stoker: Database, connection: Connection, worker: str
) -> None:
    """P2: what is left stays claimed under the same token, one step on."""
    fill(connection, 10, span=10)
    claimed = claim(stoker, worker, 10)
    token = claimed.token
    part: dict[str, Any] = {
        "los": [1], "his": [4], "tries": [1], "seconds": [0.1], "labels": [None], "results": [None], "done": 4,
        "left_los": [5], "left_his": [10], "left_attempts": [0],
    }  # fmt: skip
    assert settle(stoker, token, **part)
    assert check(connection) == Counts(claimed=6, done=4)
    before = everything(connection)
    assert not settle(stoker, token, **part)
    assert everything(connection) == before
    assert stoker.run("find_claim", token=token) == [(1,)]
    rest: dict[str, Any] = {**part, "los": [5], "his": [10], "done": 6, "left_los": [], "left_his": [], "left_attempts": []}
    assert not settle(stoker, token, 0, **rest)
    assert not settle_plain(stoker, claimed, 0)
    assert settle(stoker, token, 1, **rest)
    assert check(connection) == Counts(done=10)
    assert counters(connection)[0] == 10


def test_a_retry_waits_for_its_delay_with_its_attempt_spent(stoker: Database, connection: Connection, worker: str) -> None:
    """By the database's clock; the attempt is on record."""
    fill(connection, 1, priority=-3)
    token = claim(stoker, worker).token
    assert settle(stoker, token, ended=[ended(1, "retry", delay=3600.0)], retried=1)
    later = "select priority, attempts, extract(epoch from available_at - now()) between 3500 and 3600 from stoker.later"
    assert connection.execute(later).fetchall() == [(-3, 1, True)]
    tried = connection.execute("select id, attempt, verdict, error_kind, error, token::text from stoker.attempts").fetchall()
    assert tried == [(1, 1, "retry", "E", "words", token)]
    assert counters(connection) == (0, 0, 1, 0.0)
    assert check(connection) == Counts(later=1)


def test_failed_and_unknown_tasks_have_a_row_each(stoker: Database, connection: Connection, fire: int, worker: str) -> None:
    """P1: with the attempts, the kind and, for unknown ones, who held them and until when its runner may live."""
    fill(connection, 2)
    token = claim(stoker, worker, 2, dead_after=600.0).token
    assert settle(stoker, token, ended=[ended(1, "failed"), ended(2, "unknown")], failed=1)
    failed = connection.execute("select id, attempts, fire, error_kind, error from stoker.failed").fetchall()
    assert failed == [(1, 1, fire, "E", "words")]
    unknown = connection.execute(
        "select id, attempts, fire, worker::text, token::text, error_kind, dead_by > now() + interval '500 s'"
        " from stoker.unknown"
    ).fetchall()
    assert unknown == [(2, 1, fire, worker, token, "E", True)]
    verdicts = connection.execute("select id, verdict, seconds from stoker.attempts order by id").fetchall()
    assert verdicts == [(1, "failed", 0.5), (2, "unknown", 0.5)]
    assert check(connection) == Counts(failed=1, unknown=1)


def test_results_labels_and_outputs_are_kept(stoker: Database, connection: Connection, worker: str) -> None:
    """Single rows for what is worth keeping, beside the spans of plain successes."""
    fill(connection, 4, span=4)
    token = claim(stoker, worker, 4).token
    assert settle(
        stoker, token, los=[1, 3, 4], his=[2, 3, 4], tries=[1, 1, 1], seconds=[0.0, 0.5, 0.0], labels=[None, None, "red"],
        results=[None, '{"a": [1, null]}', None], done=4, outputs=[{"id": 2, "attempt": 1, "output": "said"}],
        tally='{"red": 1}',
    )  # fmt: skip
    outcomes = connection.execute("select lo, hi, seconds, label, result from stoker.outcomes order by lo").fetchall()
    assert outcomes == [(1, 2, 0, None, None), (3, 3, 0.5, None, {"a": [1, None]}), (4, 4, 0, "red", None)]
    assert connection.execute("select id, attempt, token::text, output from stoker.outputs").fetchall() == [
        (2, 1, token, "said")
    ]
    assert connection.execute("select tally from stoker.workers").fetchone() == ({"red": 1},)
    assert check(connection) == Counts(done=4)


def test_what_is_given_back_costs_no_attempt(stoker: Database, connection: Connection, worker: str) -> None:
    """Unstarted tasks go back as spans, as they were."""
    fill(connection, 6, span=6)
    token = claim(stoker, worker, 6).token
    assert settle(
        stoker, token, los=[1], his=[1], tries=[1], seconds=[0.0], labels=[None], results=[None], done=1,
        ended=[ended(2, "retry")], retried=1, free_los=[3], free_his=[6], free_attempts=[0],
    )  # fmt: skip
    assert connection.execute("select lo, hi, attempts, suspect from stoker.ready").fetchall() == [(3, 6, 0, False)]
    assert check(connection) == Counts(ready=4, later=1, done=1)


def test_a_run_given_back_over_several_priorities_stands_in_one_span_each(
    stoker: Database, connection: Connection, worker: str
) -> None:
    """A span is homogeneous: a claim goes over priorities, and what is given back of it may be neighbours by id alone."""
    fill(connection, 3, span=3, priority=0)
    fill(connection, 3, span=3, priority=1)
    token = claim(stoker, worker, 6).token
    assert settle(stoker, token, free_los=[1], free_his=[6], free_attempts=[2])
    spans = connection.execute("select lo, hi, priority, attempts from stoker.ready order by lo").fetchall()
    assert spans == [(1, 3, 0, 2), (4, 6, 1, 2)]
    assert check(connection) == Counts(ready=6)


def test_a_run_given_back_over_a_partitions_border_is_two_spans(stoker: Database, connection: Connection, worker: str) -> None:
    """A partition is dropped whole: no span may reach into another."""
    connection.execute("select setval('stoker.task_ids', 9999998, true)")
    fill(connection, 1)
    fill(connection, 1)
    token = claim(stoker, worker, 2).token
    assert settle(stoker, token, free_los=[9_999_999], free_his=[10_000_000], free_attempts=[0])
    assert connection.execute("select lo, hi from stoker.ready order by lo").fetchall() == [
        (9_999_999, 9_999_999),
        (10_000_000, 10_000_000),
    ]
    check(connection)


def test_the_workers_counters_equal_the_rows(stoker: Database, connection: Connection, worker: str) -> None:
    """P4: a note is made of the counters, so they add up to the rows."""
    fill(connection, 20, span=5)
    token = claim(stoker, worker, 9).token
    whole: dict[str, Any] = {"labels": [None], "results": [None], "tries": [1], "seconds": [0.1]}
    assert settle(
        stoker, token, los=[1], his=[3], done=3, **whole, failed=2, retried=1, busy=0.3, left_los=[7], left_his=[9],
        left_attempts=[0], ended=[ended(4, "failed"), ended(5, "failed"), ended(6, "retry")],
    )  # fmt: skip
    assert settle(stoker, token, 1, los=[7], his=[9], done=3, busy=0.2, **whole)
    assert settle_plain(stoker, claim(stoker, worker, 4))
    counts = check(connection)
    assert counts == Counts(ready=7, later=1, done=10, failed=2)
    assert counters(connection) == (counts.done, counts.failed, counts.later, 0.504)


def test_settling_and_claiming_in_one_pipeline_are_one_transaction(
    stoker: Database, connection: Connection, worker: str
) -> None:
    """P2: the claim breaks on its token, which is taken, and the settlement before it is undone; then both go through."""
    fill(connection, 4)
    held, other = claim(stoker, worker), claim(stoker, worker)
    before = everything(connection)
    for _ in range(4):
        with pytest.raises(psycopg.errors.UniqueViolation):
            stoker.flush(
                ("settle_plain", settling_plain(held)),
                ("claim_batch", claiming(worker, token=other.token)),
            )
        assert everything(connection) == before
    settled, claimed = stoker.flush(("settle_plain", settling_plain(held)), ("claim_batch", claiming(worker)))
    assert settled == [(uuid.UUID(held.token),)]
    assert claimed[0][0] == [3]
    assert check(connection) == Counts(ready=1, claimed=2, done=1)


def test_a_broken_statement_in_a_settlement_undoes_all_of_it(stoker: Database, connection: Connection, worker: str) -> None:
    """P1: a result that is no JSON breaks the statement, and the claim still stands."""
    fill(connection, 1)
    claimed = claim(stoker, worker)
    before = everything(connection)
    broken = settling(claimed.token, los=[1], his=[1], tries=[1], seconds=[0.0], labels=[None], results=["{"], done=1)
    with pytest.raises(psycopg.errors.InvalidTextRepresentation):
        stoker.run("settle", **broken)
    assert everything(connection) == before
    assert check(connection) == Counts(claimed=1)


@pytest.mark.parametrize("way", ["settled", "released"])
def test_a_suspect_that_did_not_start_is_a_suspect_still(
    stoker: Database, connection: Connection, worker: str, way: str
) -> None:
    """R02: it is claimed alone until it has shown what it is."""
    (task,) = fill(connection, 1, suspect=True)
    claimed = claim(stoker, worker, 1, ahead=True)
    if way == "settled":
        assert settle(stoker, claimed.token, free_los=[task], free_his=[task], free_attempts=[0])
    else:
        assert release(stoker, worker)
    assert connection.execute("select lo, suspect from stoker.ready").fetchall() == [(task, True)]
