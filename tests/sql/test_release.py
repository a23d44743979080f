"""Releasing what a lost worker held, and making due what waits."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
from tests.sql.factory import claim, ended, fill, register, release, settle, settle_plain
from tests.sql.oracle import Counts, check
from tests.waiting import wait_until

from stoker.sql.database import Database
from stoker.sql.query import load
from stoker.sql.target import Target

Connection = psycopg.Connection[Any]
LOST: dict[str, Any] = {"kind": "worker lost", "error": "worker lost", "status": None}


def waits_for_a_lock(connection: Connection) -> bool:
    found = connection.execute("select from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()")
    return found.fetchone() is not None


def test_a_batch_of_one_is_charged(stoker: Database, connection: Connection, fire: int, worker: str) -> None:
    """P1: the attempt is spent and on record with its reason, the task is queued again, the worker is buried."""
    fill(connection, 1)
    token = claim(stoker, worker).token
    assert release(stoker, worker, kind="worker lease expired") == (0, 0, 0, 1, 0)
    assert connection.execute("select lo, attempts, suspect from stoker.ready").fetchall() == [(1, 1, False)]
    tried = connection.execute("select id, attempt, token::text, fire, worker::text, verdict, error_kind from stoker.attempts")
    assert tried.fetchall() == [(1, 1, token, fire, worker, "retry", "worker lease expired")]
    buried = "select exit_reason, retried, failed, fenced_at is not null and exited_at is not null from stoker.workers"
    assert connection.execute(buried).fetchall() == [("lost", 1, 0, True)]
    assert check(connection) == Counts(ready=1)


@pytest.mark.parametrize(("of_the_mode", "of_the_task"), [(3, None), (1, 3), (9, 3)])
def test_a_batch_of_one_fails_at_max_attempts(
    stoker: Database, connection: Connection, fire: int, of_the_mode: int, of_the_task: int | None
) -> None:
    """P1: after exactly that many starts; the task's own number goes before the mode's."""
    fill(connection, 1, max_attempts=of_the_task)
    outcomes = []
    for _ in range(3):
        worker = register(stoker, fire)
        claim(stoker, worker, max_attempts=of_the_mode)
        outcomes.append(release(stoker, worker))
    assert outcomes == [(0, 0, 0, 1, 0), (0, 0, 0, 1, 0), (0, 0, 1, 0, 0)]
    assert connection.execute("select id, attempts, error_kind from stoker.failed").fetchall() == [(1, 3, "worker lost")]
    verdicts = connection.execute("select attempt, verdict from stoker.attempts order by attempt").fetchall()
    assert verdicts == [(1, "retry"), (2, "retry"), (3, "failed")]
    assert connection.execute("select sum(failed), sum(retried) from stoker.workers").fetchone() == (1, 2)
    assert check(connection) == Counts(failed=1)


def test_the_tasks_of_a_larger_batch_are_suspect_and_not_charged(
    stoker: Database, connection: Connection, fire: int, worker: str
) -> None:
    """R09: nobody knows which of them did it; each is next claimed alone, and then charged."""
    fill(connection, 3, span=3, max_attempts=1)
    claim(stoker, worker, 3)
    assert release(stoker, worker) == (0, 0, 0, 0, 3)
    spans = connection.execute("select lo, hi, attempts, suspect from stoker.ready order by lo").fetchall()
    assert spans == [(1, 1, 0, True), (2, 2, 0, True), (3, 3, 0, True)]
    assert connection.execute("select count(*) from stoker.attempts").fetchone() == (0,)
    assert check(connection) == Counts(ready=3)
    following = register(stoker, fire)
    assert claim(stoker, following, 3).ids == [1]
    assert release(stoker, following) == (0, 0, 1, 0, 0)
    assert check(connection) == Counts(ready=2, failed=1)


def test_the_last_of_a_larger_batch_is_suspect_too(stoker: Database, connection: Connection, worker: str) -> None:
    """The size of the claim when it was made decides, not what is left of it."""
    fill(connection, 2, span=2)
    token = claim(stoker, worker, 2).token
    assert settle(stoker, token, los=[1], his=[1], tries=[1], seconds=[0.0], labels=[None], results=[None], done=1,
                  left_los=[2], left_his=[2], left_attempts=[0])  # fmt: skip
    assert release(stoker, worker) == (0, 0, 0, 0, 1)
    assert check(connection) == Counts(ready=1, done=1)


def test_unstarted_tasks_go_back_as_they_were(stoker: Database, connection: Connection, worker: str) -> None:
    """Neither charged nor suspect; a side effect that was not begun is no riddle."""
    fill(connection, 1, priority=7)
    claim(stoker, worker, ahead=True, side_effect=True)
    assert release(stoker, worker) == (1, 0, 0, 0, 0)
    rows = connection.execute("select lo, hi, priority, attempts, suspect from stoker.ready").fetchall()
    assert rows == [(1, 1, 7, 0, False)]
    assert connection.execute("select count(*) from stoker.attempts").fetchone() == (0,)
    assert check(connection) == Counts(ready=1)


def test_unstarted_spans_go_back_as_spans(stoker: Database, connection: Connection, worker: str) -> None:
    """A thousand ids are one row again."""
    fill(connection, 2000, span=1000)
    claim(stoker, worker, 1500)
    connection.execute("update stoker.claims set started = false")
    assert release(stoker, worker) == (1500, 0, 0, 0, 0)
    spans = connection.execute("select lo, hi, suspect from stoker.ready order by lo").fetchall()
    assert spans == [(1, 1000, False), (1001, 1500, False), (1501, 2000, False)]
    assert check(connection) == Counts(ready=2000)


@pytest.mark.parametrize("batch", [1, 3])
def test_a_started_side_effect_becomes_unknown_and_is_never_queued(
    stoker: Database, connection: Connection, fire: int, worker: str, batch: int
) -> None:
    """P3: with what a recovery needs: the token, and when the old runner is certainly dead."""
    fill(connection, 3, span=3)
    token = claim(stoker, worker, batch, side_effect=True, dead_after=600.0).token
    assert release(stoker, worker) == (0, batch, 0, 0, 0)
    rows = connection.execute(
        "select id, attempts, fire, worker::text, token::text, dead_by > now() + interval '500 s'"
        " from stoker.unknown order by id"
    ).fetchall()
    assert rows == [(task, 1, fire, worker, token, True) for task in range(1, batch + 1)]
    assert connection.execute("select distinct verdict from stoker.attempts").fetchall() == [("unknown",)]
    assert check(connection) == Counts(ready=3 - batch, unknown=batch)


def test_a_worker_without_claims_is_buried_once(stoker: Database, connection: Connection, worker: str) -> None:
    """The second burial finds nothing to do; the worker's own last word stands."""
    assert release(stoker, worker) == (0, 0, 0, 0, 0)
    assert release(stoker, worker) is None


def test_a_worker_that_left_keeps_its_last_word(stoker: Database, connection: Connection, worker: str) -> None:
    """A claim it left behind is freed all the same."""
    fill(connection, 1)
    claim(stoker, worker, ahead=True)
    stoker.run("leave", worker=worker, reason="cap", status="said", respawns=0, peak_memory=0, cpu=0.0, db_retries=0)
    assert release(stoker, worker) == (1, 0, 0, 0, 0)
    assert connection.execute("select exit_reason, exit_status from stoker.workers").fetchall() == [("cap", "said")]
    assert check(connection) == Counts(ready=1)


def test_two_releases_at_once_free_each_claim_once(database: str, stoker: Database, connection: Connection, fire: int) -> None:
    """R54: both began before either committed; one attempt a task, and only one has anything to report."""
    fill(connection, 20)
    workers = [register(stoker, fire) for _ in range(20)]
    for worker in workers:
        claim(stoker, worker)

    def sweep(order: list[str]) -> list[tuple[int, ...] | None]:
        own = Database(Target(database))
        found = [release(own, worker) for worker in order]
        own.close()
        return found

    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(sweep, (workers, workers))
    assert [(one is None) + (other is None) for one, other in zip(first, second, strict=True)] == [1] * 20
    attempts = connection.execute("select id, count(*) from stoker.attempts group by id order by id").fetchall()
    assert attempts == [(task, 1) for task in range(1, 21)]
    assert check(connection) == Counts(ready=20)


def test_a_release_that_waited_for_another_frees_nothing(
    database: str, stoker: Database, connection: Connection, worker: str
) -> None:
    """R54: its snapshot still shows the claim; the row lock, not the snapshot, decides."""
    fill(connection, 1)
    claim(stoker, worker)
    with psycopg.connect(database) as first, ThreadPoolExecutor(1) as pool:
        first.execute(load("release_worker", "stoker"), {"worker": worker, **LOST})
        second = pool.submit(release, stoker, worker)
        wait_until(lambda: waits_for_a_lock(connection), message="the second release did not begin")
        first.commit()
        assert second.result() is None
    assert check(connection) == Counts(ready=1)


def test_a_release_that_waited_for_a_partial_settlement_frees_only_what_it_left(
    database: str, stoker: Database, connection: Connection, worker: str
) -> None:
    """P2: first commit wins, and the release reads the claim as it then is."""
    fill(connection, 4, span=4)
    token = claim(stoker, worker, 4).token
    part = {"token": token, "step": 0, "los": [1], "his": [3], "tries": [1], "seconds": [0.0]}
    with psycopg.connect(database) as settling, ThreadPoolExecutor(1) as pool:
        settling.execute(
            "with cut as (update stoker.claims set los = '{4}', his = '{4}', step = 1 where token = %(token)s returning *)"
            " insert into stoker.outcomes (lo, hi, fire, worker, token, attempt, seconds)"
            " select 1, 3, fire, worker, token, 1, 0 from cut",
            part,
        )
        late = pool.submit(release, stoker, worker)
        wait_until(lambda: waits_for_a_lock(connection), message="the release did not begin")
        settling.commit()
        assert late.result() == (0, 0, 0, 0, 1)
    assert check(connection) == Counts(ready=1, done=3)


def test_a_worker_that_renews_is_never_fenced_for_its_lease(stoker: Database, connection: Connection, worker: str) -> None:
    """The lease is read in the statement that fences, not before."""
    assert stoker.run("fence_worker", worker=worker, only_lapsed=True) == []
    connection.execute("update stoker.workers set lease_until = now() - interval '1 s'")
    assert stoker.run("renew_worker", worker=worker, lease=60.0) != []
    assert stoker.run("fence_worker", worker=worker, only_lapsed=True) == []
    connection.execute("update stoker.workers set lease_until = now() - interval '1 s'")
    assert stoker.run("fence_worker", worker=worker, only_lapsed=True) != []
    assert stoker.run("renew_worker", worker=worker, lease=60.0) == []


def later(stoker: Database, connection: Connection, worker: str, count: int) -> None:
    """Tasks that failed once, and are due in a minute."""
    fill(connection, count, span=count)
    token = claim(stoker, worker, count).token
    assert settle(stoker, token, ended=[ended(task, "retry") for task in range(1, count + 1)], retried=count)


def test_only_what_is_due_is_promoted(stoker: Database, connection: Connection, worker: str) -> None:
    """By the database's clock, with the attempts that were spent."""
    later(stoker, connection, worker, 3)
    assert stoker.run("promote_due", limit=1000) == [(0,)]
    connection.execute("update stoker.later set available_at = now() where lo = 2")
    assert stoker.run("promote_due", limit=1000) == [(1,)]
    assert connection.execute("select lo, hi, attempts, suspect from stoker.ready").fetchall() == [(2, 2, 1, False)]
    assert check(connection) == Counts(ready=1, later=2)
    claimed = claim(stoker, worker, 3)
    assert [spent for _, _, spent in claimed.spans] == [1]
    assert settle_plain(stoker, claimed)
    assert connection.execute("select attempt from stoker.outcomes").fetchall() == [(2,)]


def test_no_more_than_the_limit_is_promoted_at_once_earliest_first(
    stoker: Database, connection: Connection, worker: str
) -> None:
    """A duty does one unit of work and says whether there is more."""
    later(stoker, connection, worker, 5)
    connection.execute("update stoker.later set available_at = now() - make_interval(secs => lo)")
    assert stoker.run("promote_due", limit=2) == [(2,)]
    assert connection.execute("select lo from stoker.ready order by lo").fetchall() == [(4,), (5,)]
    assert [stoker.run("promote_due", limit=2)[0][0] for _ in range(3)] == [2, 1, 0]
    assert check(connection) == Counts(ready=5)


def test_two_promoters_never_double_a_task(database: str, stoker: Database, connection: Connection, worker: str) -> None:
    """P1: they skip what the other has in hand."""
    later(stoker, connection, worker, 500)
    connection.execute("update stoker.later set available_at = now()")

    def promote(_: int) -> int:
        own, total = Database(Target(database)), 0
        while (moved := own.run("promote_due", limit=7)[0][0]) or own.run("look_ready", mode="m", version=1)[0][1] is not None:
            total += moved
        own.close()
        return total

    with ThreadPoolExecutor(2) as pool:
        assert sum(pool.map(promote, range(2))) == 500
    assert check(connection) == Counts(ready=500)


def test_a_promoter_does_not_wait_for_another(database: str, stoker: Database, connection: Connection, worker: str) -> None:
    """P10: what an open transaction has in hand is skipped."""
    later(stoker, connection, worker, 3)
    connection.execute("update stoker.later set available_at = now()")
    with psycopg.connect(database) as other:
        other.execute(load("promote_due", "stoker"), {"limit": 1})
        assert stoker.run("promote_due", limit=10) == [(2,)]
    assert check(connection) == Counts(ready=3)
