"""Claims: nothing is taken twice, nothing is left out, and a worker takes only what it may."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
from tests.sql.factory import Claimed, claim, claiming, fill, register, release, settle_plain
from tests.sql.oracle import Counts, check
from tests.waiting import wait_until

from stoker.sql.database import Database
from stoker.sql.query import load
from stoker.sql.target import Target
from stoker.worker.pace import BEFORE_ALL, Pace

Connection = psycopg.Connection[Any]


def drain(url: str, fire: int, batch: int, locks: int, gate: threading.Barrier) -> list[int]:
    """A worker that claims and settles until an unlocked look says that nothing is left; the ids it took."""
    database, taken = Database(Target(url)), []
    worker = register(database, fire)
    gate.wait()
    while True:
        claimed = claim(database, worker, batch, locks=locks)
        if claimed.ids:
            assert settle_plain(database, claimed)
            taken += claimed.ids
        elif not database.run("look_ready", mode="m", version=1)[0][0]:
            database.close()
            return taken


def crowd(count: int, work: Callable[[threading.Barrier], list[int]]) -> list[list[int]]:
    """What each of ``count`` workers took that began at the same moment."""
    gate = threading.Barrier(count)
    with ThreadPoolExecutor(count) as pool:
        return [future.result() for future in [pool.submit(work, gate) for _ in range(count)]]


@pytest.mark.parametrize("span", [1, 20, 1000, 60_000])
def test_four_workers_settle_each_of_60_000_tasks_exactly_once(
    database: str, connection: Connection, fire: int, span: int
) -> None:
    """P1, P2: whatever the length of the spans."""
    ids = fill(connection, 60_000, span=span)
    connection.execute("analyze stoker.ready")
    shares = crowd(4, lambda gate: drain(database, fire, 1000, max(2, 1000 // span), gate))
    assert sorted(task for share in shares for task in share) == ids
    assert check(connection) == Counts(done=60_000)
    assert connection.execute("select sum(done) from stoker.workers").fetchone() == (60_000,)


def test_twelve_workers_on_one_span_all_take_work_and_leave_none(database: str, connection: Connection, fire: int) -> None:
    """An empty claim is not an empty queue: those who skip each other look again, and only then leave."""
    ids = fill(connection, 1000, span=1000)
    shares = crowd(12, lambda gate: drain(database, fire, 1, 2, gate))
    assert sorted(task for share in shares for task in share) == ids
    assert all(shares)
    assert check(connection) == Counts(done=1000)


def test_a_span_cut_by_another_is_found_again_by_its_id(
    database: str, stoker: Database, connection: Connection, fire: int
) -> None:
    """P2: B's statement began before A cut the span and locks the row after; matched by lo, B would change nothing."""
    fill(connection, 100, span=100)
    first, second = register(stoker, fire), register(stoker, fire)
    with psycopg.connect(database) as gatekeeper, ThreadPoolExecutor(1) as pool:
        gatekeeper.execute("select from stoker.workers where worker = %s for update", (second,))
        late = pool.submit(claim_elsewhere, database, second, 10)
        wait_until(lambda: waits_for_a_lock(connection), message="the second claim did not begin")
        early = claim(stoker, first, 10)
        gatekeeper.commit()
        assert (early.ids, late.result().ids) == (list(range(1, 11)), list(range(11, 21)))
    assert check(connection) == Counts(ready=80, claimed=20)
    third = register(stoker, fire)
    assert claim(stoker, third, 1).ids == [21]


def claim_elsewhere(url: str, worker: str, batch: int) -> Claimed:
    """A claim on a connection of its own."""
    database = Database(Target(url))
    claimed = claim(database, worker, batch)
    database.close()
    return claimed


def waits_for_a_lock(connection: Connection) -> bool:
    found = connection.execute("select from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()")
    return found.fetchone() is not None


def test_a_span_held_by_an_open_claim_is_skipped_and_not_waited_for(
    database: str, stoker: Database, connection: Connection, fire: int
) -> None:
    """P10: A's claim is not committed; B's comes back at once and empty, and after A's commit goes on behind it."""
    fill(connection, 100, span=100)
    first, second = register(stoker, fire), register(stoker, fire)
    with psycopg.connect(database) as open_claim:
        open_claim.execute(load("claim_batch", "stoker"), claiming(first, 10))
        skipped = claim(stoker, second, 10)
        assert not skipped.is_fenced
        assert skipped.ids == []
        assert stoker.run("look_ready", mode="m", version=1) == [(1, None)]
    assert claim(stoker, second, 10).ids == list(range(11, 21))
    assert check(connection) == Counts(ready=80, claimed=20)


def test_a_span_only_shrinks_and_keeps_its_id(stoker: Database, connection: Connection, worker: str) -> None:
    """A claimer that waited for a row that grew would not see the new tasks."""
    fill(connection, 10, span=10)
    seen = []
    for _ in range(4):
        seen += connection.execute("select span, lo, hi from stoker.ready").fetchall()
        claim(stoker, worker, 3)
    assert seen == [(1, 1, 10), (1, 4, 10), (1, 7, 10), (1, 10, 10)]
    assert check(connection) == Counts(claimed=10)


def test_one_claim_goes_over_many_spans_and_cuts_the_last(stoker: Database, connection: Connection, worker: str) -> None:
    """The rows are exactly the ids that were taken out of ready."""
    fill(connection, 12, span=4)
    claimed = claim(stoker, worker, 6)
    assert claimed.spans == [(1, 4, 0), (5, 6, 0)]
    assert claimed.ids == [1, 2, 3, 4, 5, 6]
    assert connection.execute("select los, his, taken from stoker.claims").fetchall() == [([1, 5], [4, 6], 6)]
    assert check(connection) == Counts(ready=6, claimed=6)


def test_a_suspect_first_in_line_is_claimed_alone(stoker: Database, connection: Connection, worker: str) -> None:
    """R09: a task that may kill its worker takes none with it."""
    (suspect,) = fill(connection, 1, suspect=True)
    fill(connection, 5, span=5)
    assert claim(stoker, worker, 4).ids == [suspect]
    assert claim(stoker, worker, 4).ids == [2, 3, 4, 5]
    check(connection)


def test_a_batch_ends_before_a_suspect_later_in_line(stoker: Database, connection: Connection, worker: str) -> None:
    """R09: nobody is claimed together with a suspect, nor behind it in the same batch."""
    fill(connection, 2)
    (suspect,) = fill(connection, 1, suspect=True)
    fill(connection, 2)
    assert [claim(stoker, worker, 9).ids for _ in range(3)] == [[1, 2], [suspect], [4, 5]]
    check(connection)


def test_newer_versions_are_left_alone_and_do_not_block(stoker: Database, connection: Connection, worker: str) -> None:
    """P11, R58: however urgent, and however many rows a claim may lock."""
    newer = fill(connection, 50, version=2, priority=-5)
    older = fill(connection, 2)
    assert claim(stoker, worker, 2, locks=2).ids == older
    assert claim(stoker, worker, 2, locks=2).ids == []
    assert claim(stoker, worker, 50, version=2).ids == newer


def test_another_modes_tasks_are_left_alone(stoker: Database, connection: Connection, worker: str) -> None:
    """P11: unknown modes stay untouched."""
    fill(connection, 3, mode="other", priority=-1)
    assert claim(stoker, worker, 3).ids == []
    assert check(connection) == Counts(ready=3)


def test_lower_numbers_are_claimed_first_and_equals_by_age(stoker: Database, connection: Connection, worker: str) -> None:
    """Negative is allowed, down to the least integer, which is still after the mark that stands before everything."""
    for priority in (5, 0, -(2**31), 0, 2**31 - 1):
        fill(connection, 1, priority=priority)
    assert [claim(stoker, worker).ids for _ in range(6)] == [[3], [2], [4], [1], [5], []]


def test_an_urgent_task_is_seen_after_the_mark_is_rewound(stoker: Database, connection: Connection, worker: str) -> None:
    """A claim goes on after the mark; the rewind each second is what lets it see what was put before it."""
    fill(connection, 10, span=10)
    pace = Pace(batch_time=0.2, batch_limit=1000, expected=None, rewound_at=100.0)
    first = claim(stoker, worker, 2)
    pace.saw(rows=1, tasks=2, asked=2, last=first.mark)
    (urgent,) = fill(connection, 1, priority=-1)
    assert claim(stoker, worker, mark_priority=pace.mark[0], mark_lo=pace.mark[1]).ids == [3]
    pace.rewind_if_due(100.9)
    assert pace.mark == first.mark
    pace.rewind_if_due(101.0)
    assert claim(stoker, worker, mark_priority=pace.mark[0], mark_lo=pace.mark[1]).ids == [urgent]


def test_an_empty_queue_gives_a_living_worker_exactly_one_empty_row(stoker: Database, worker: str) -> None:
    """So that an empty queue and a fence are told apart, and no claim is made of nothing."""
    claimed = claim(stoker, worker, 5)
    assert len(claimed.rows) == 1
    assert claimed.rows[0].los is None
    assert stoker.run("find_claim", token=claimed.token) == []


@pytest.mark.parametrize("end", ["fence_worker", "fence_fire", "leave", "release_worker"])
def test_a_worker_that_is_fenced_or_gone_gets_no_row(
    stoker: Database, connection: Connection, fire: int, worker: str, end: str
) -> None:
    """P2, P6: no claim can follow the fence."""
    fill(connection, 5)
    parameters: dict[str, dict[str, Any]] = {
        "fence_worker": {"worker": worker, "only_lapsed": False},
        "fence_fire": {"fire": fire},
        "leave": {
            "worker": worker,
            "reason": "cap",
            "status": None,
            "respawns": 0,
            "peak_memory": 0,
            "cpu": 0.0,
            "db_retries": 0,
        },
        "release_worker": {"worker": worker, "kind": "worker lost", "error": "worker lost", "status": None},
    }
    assert stoker.run(end, **parameters[end])
    assert claim(stoker, worker, 5).is_fenced
    assert check(connection) == Counts(ready=5)


def test_a_claim_that_waited_for_the_fence_gets_no_row(database: str, connection: Connection, worker: str) -> None:
    """P2: the fence is committed while the claim waits for the worker's row; what it took would be nobody's."""
    fill(connection, 5)
    with psycopg.connect(database) as hygiene, ThreadPoolExecutor(1) as pool:
        hygiene.execute(load("fence_worker", "stoker"), {"worker": worker, "only_lapsed": False})
        late = pool.submit(claim_elsewhere, database, worker, 5)
        wait_until(lambda: waits_for_a_lock(connection), message="the claim did not begin")
        hygiene.commit()
        assert late.result().is_fenced
    assert check(connection) == Counts(ready=5)


def test_only_a_claim_ahead_of_one_task_is_not_started(stoker: Database, connection: Connection, worker: str) -> None:
    """A batch made ahead is handed over without another word, so it counts as started; a single one says when it is."""
    fill(connection, 4)
    claims: dict[str, Claimed] = {}
    for name, batch, ahead in (("one", 1, False), ("one ahead", 1, True), ("two ahead", 2, True)):
        claims[name] = claim(stoker, worker, batch, ahead=ahead)
    started = dict(connection.execute("select token::text, started from stoker.claims").fetchall())
    assert {name: started[one.token] for name, one in claims.items()} == {"one": True, "one ahead": False, "two ahead": True}
    assert stoker.run("start_claim", token=claims["one ahead"].token, dead_after=60.0) != []
    assert stoker.run("start_claim", token=claims["one ahead"].token, dead_after=60.0) != []
    release(stoker, worker)
    assert stoker.run("start_claim", token=claims["one ahead"].token, dead_after=60.0) == []


def test_a_claim_renews_its_workers_lease(stoker: Database, connection: Connection, worker: str) -> None:
    """The lease is the worker's: a busy one needs no other renewal."""
    connection.execute("update stoker.workers set lease_until = now() - interval '1 h'")
    claim(stoker, worker)
    assert connection.execute("select lease_until > now() from stoker.workers").fetchone() == (True,)


def test_a_claim_behind_a_pinned_horizon_reads_no_dead_entries_after_its_mark(
    database: str, stoker: Database, connection: Connection, worker: str
) -> None:
    """P10, R61: with the mark, the pages read for a claim do not grow with what was claimed before it."""
    fill(connection, 5000)
    with psycopg.connect(database) as pinned:
        pinned.execute("set transaction isolation level repeatable read")
        pinned.execute("select count(*) from stoker.tasks")
        mark, deadline = BEFORE_ALL, time.monotonic() + 30
        while (claimed := claim(stoker, worker, 500, mark_priority=mark[0], mark_lo=mark[1])).ids and mark[1] < 4500:
            mark = claimed.mark
            assert time.monotonic() < deadline
        cold, warm = (pages(connection, worker, where) for where in (BEFORE_ALL, mark))
    assert warm < cold / 3


def pages(connection: Connection, worker: str, mark: tuple[int, int]) -> int:
    """Pages that a claim of one after ``mark`` would read to find its span."""
    text = """
        explain (analyze, buffers, timing off, summary off, format json)
        select span from stoker.ready where mode = 'm' and version = 1 and (priority, lo) > (%s, %s)
        order by priority, lo limit 1 for update skip locked
    """
    with connection.transaction(force_rollback=True):
        connection.execute("set local enable_seqscan = off")
        connection.execute("set local enable_bitmapscan = off")
        plan = connection.execute(text, mark).fetchone()
    assert plan is not None
    (top,) = plan[0]
    return int(top["Plan"]["Shared Hit Blocks"] + top["Plan"]["Shared Read Blocks"])
