"""A keeper's visit whose reply was lost: asked before it is repeated, so that nothing is settled or claimed twice."""

import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import psycopg
import pytest
from tests.sql.factory import fill, open_fire, orders, release
from tests.sql.oracle import Counts, check
from tests.sql.proxy import REPLY, REQUEST, Proxy, proxied
from tests.waiting import wait_until

from stoker.sql.database import CommitUnknownError, Database
from stoker.sql.target import Target
from stoker.worker.book import RETRY, Claim
from stoker.worker.desk import Answer, Desk, Want
from stoker.worker.pace import BEFORE_ALL
from stoker.worker.settlement import Settlement, settlement

Connection = psycopg.Connection[Any]
BOTH = pytest.mark.parametrize("lost", [REQUEST, REPLY])


@pytest.fixture
def proxy(database: str) -> Iterator[Proxy]:
    with proxied(database) as made:
        yield made


@pytest.fixture
def desk(proxy: Proxy, fire: int) -> Iterator[Desk]:
    """A keeper's dealings with the database, through the proxy; registered."""
    database = Database(Target(proxy.url))
    made = Desk(orders(database, fire, str(uuid.uuid4())), database)
    assert made.register({})
    yield made
    database.close()


def want(batch: int) -> Want:
    return Want(str(uuid.uuid4()), batch, 100, batch, BEFORE_ALL, ahead=False, version=1)


def taken(desk: Desk, batch: int) -> Claim:
    """A claim that was made, and of which every task is plainly done."""
    claim = desk.visit([], want(batch), {}).claim
    assert claim is not None
    claim.end_before(claim.size)
    return claim


def visit_twice(desk: Desk, proxy: Proxy, lost: str, settlements: list[Settlement], wanted: Want | None) -> Answer:
    """The first visit loses its request or its reply; the second is the same again."""
    proxy.lose(lost)
    with pytest.raises(CommitUnknownError):
        desk.visit(settlements, wanted, {})
    assert proxy.has_lost
    return desk.visit(settlements, wanted, {})


def ids(answer: Answer) -> list[int]:
    assert answer.claim is not None
    return [task for lo, hi, _ in answer.claim.spans for task in range(lo, hi + 1)]


@BOTH
def test_a_settlement_and_a_claim_are_made_once(proxy: Proxy, desk: Desk, connection: Connection, lost: str) -> None:
    """P2, R15: whether the COMMIT happened or not; the claim that the reply told of is read again."""
    fill(connection, 6, span=6)
    claim = taken(desk, 2)
    wanted = want(2)
    answer = visit_twice(desk, proxy, lost, [settlement(claim)], wanted)
    assert (answer.stale, answer.fenced, answer.last) == ((), False, (0, 4))
    assert ids(answer) == [3, 4]
    assert answer.claim is not None
    assert answer.claim.token == wanted.token
    assert check(connection) == Counts(ready=2, claimed=2, done=2)
    assert connection.execute("select done from stoker.workers").fetchall() == [(2,)]


@BOTH
def test_a_partial_settlement_is_made_once(proxy: Proxy, desk: Desk, connection: Connection, lost: str) -> None:
    """P2: its step tells whether it was."""
    fill(connection, 4, span=4)
    claim = desk.visit([], want(4), {}).claim
    assert claim is not None
    retried = claim.entry(1)
    retried.said, retried.error_kind, retried.delay = RETRY, "E", 60.0
    claim.end_before(2)
    answer = visit_twice(desk, proxy, lost, [settlement(claim)], None)
    assert answer.stale == ()
    claim.settle()
    claim.end_before(4)
    assert desk.visit([settlement(claim)], None, {}).stale == ()
    assert check(connection) == Counts(later=1, done=3)
    assert connection.execute("select done, retried from stoker.workers").fetchall() == [(3, 1)]


@BOTH
def test_a_claim_alone_is_made_once(proxy: Proxy, desk: Desk, connection: Connection, lost: str) -> None:
    """P2: its token is the worker's own, so it can ask for it."""
    fill(connection, 3)
    assert ids(visit_twice(desk, proxy, lost, [], want(2))) == [1, 2]
    assert check(connection) == Counts(ready=1, claimed=2)


@BOTH
def test_what_goes_back_unstarted_goes_back_once(proxy: Proxy, desk: Desk, connection: Connection, lost: str) -> None:
    """P1, P2: a claim that is gone, and of which nothing had ended, is no sign of a fence."""
    fill(connection, 4)
    claims = [desk.visit([], want(2), {}).claim for _ in range(2)]
    back = [settlement(claim, give_back=True) for claim in claims if claim is not None]
    assert visit_twice(desk, proxy, lost, back, None) == Answer()
    assert check(connection) == Counts(ready=4)
    again = desk.visit([], want(4), {}).claim
    assert again is not None
    answer = visit_twice(desk, proxy, lost, [settlement(again, give_back=True)], want(4))
    assert (answer.stale, answer.fenced) == ((), False)
    assert check(connection) in {Counts(claimed=4), Counts(ready=4)}


@BOTH
def test_a_single_task_that_waited_starts_once(proxy: Proxy, desk: Desk, connection: Connection, lost: str) -> None:
    """P2: said again, since the reply was lost, it is still this worker's."""
    fill(connection, 1)
    claim = desk.visit([], replace(want(1), ahead=True), {}).claim
    assert claim is not None
    assert not claim.started
    proxy.lose(lost)
    assert desk.start(claim)
    assert proxy.has_lost
    assert check(connection) == Counts(claimed=1)


@BOTH
def test_a_settlement_beside_a_claim_of_nothing_is_no_fence(
    proxy: Proxy, desk: Desk, connection: Connection, lost: str
) -> None:
    """An empty queue and a fence are told apart, also when the reply was lost."""
    fill(connection, 1)
    claim = taken(desk, 1)
    answer = visit_twice(desk, proxy, lost, [settlement(claim)], want(1))
    assert answer == Answer()
    assert check(connection) == Counts(done=1)


@BOTH
def test_a_fence_after_a_lost_reply_is_seen(
    proxy: Proxy, desk: Desk, connection: Connection, stoker: Database, lost: str
) -> None:
    """P2: what was committed stands, what was not is not made good, and nothing can be claimed."""
    fill(connection, 2)
    claim = taken(desk, 1)
    settlements, wanted = [settlement(claim)], want(1)
    proxy.lose(lost)
    with pytest.raises(CommitUnknownError):
        desk.visit(settlements, wanted, {})
    ((worker,),) = connection.execute("select worker::text from stoker.workers").fetchall()
    release(stoker, worker)
    answer = desk.visit(settlements, wanted, {})
    assert answer.claim is None
    assert desk.visit([], want(1), {}).fenced
    assert not desk.renew()
    counts = check(connection)
    assert (counts.claimed, counts.done) == (0, 1 if lost == REPLY else 0)


def test_a_desk_without_a_fire_that_is_open_is_refused(stoker: Database) -> None:
    """A worker of a fire that closed meanwhile never enters it; entering twice is entering once."""
    fire = open_fire(stoker)
    first = Desk(orders(stoker, fire, str(uuid.uuid4())), stoker)
    assert first.register({})
    assert first.register({})
    stoker.run(
        "start_closing", fire=fire, closer=str(uuid.uuid4()), owner="{}", lease=60.0, seen_closer=None, only_lapsed=False
    )
    assert not Desk(orders(stoker, fire, str(uuid.uuid4())), stoker).register({})


def test_a_claim_that_was_still_being_made_when_it_was_asked_for_is_taken(
    database: str, proxy: Proxy, desk: Desk, connection: Connection
) -> None:
    """P2, R15: the connection broke while the server waited for a lock; the same claim, made again, finds it."""
    fill(connection, 2)
    wanted = want(1)
    waiting = "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()"
    with psycopg.connect(database) as own, ThreadPoolExecutor(1) as pool:
        own.execute("select from stoker.workers for update")
        first = pool.submit(desk.visit, [], wanted, {})
        wait_until(lambda: connection.execute(waiting).fetchall() == [(1,)])
        proxy.cut()
        with pytest.raises(CommitUnknownError):
            first.result(30)
        again = pool.submit(desk.visit, [], wanted, {})
        wait_until(lambda: connection.execute(waiting).fetchall() == [(2,)])
        own.commit()
        assert ids(again.result(30)) == [1]
    assert check(connection) == Counts(ready=1, claimed=1)
