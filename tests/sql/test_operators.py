"""What people do to tasks, on the real tables: each move leaves the state it names, and tells of it; races have one winner."""

import random
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import psycopg
import pytest
from tests.sql.factory import claim, ended, fill, open_fire, orders, register, settle, settle_plain
from tests.sql.oracle import Counts, check

from stoker.hygiene.sweep import sweep
from stoker.orchestrator import moves
from stoker.orchestrator.moves import Filters, Moved, Verb
from stoker.sql.database import Database
from stoker.sql.enqueue import NewTask, enqueue
from stoker.sql.target import Target
from stoker.worker.book import FAILED, RETRY
from stoker.worker.desk import Desk, Want
from stoker.worker.pace import BEFORE_ALL
from stoker.worker.settlement import settlement

Connection = psycopg.Connection[Any]


def do(stoker: Database, verb: Verb, *ids: int, **parameters: Any) -> Moved:
    """Move these tasks; what became of them."""
    all_of_them = Moved()
    for some in moves.move(stoker, verb, ids, {"actor": "ann", "reason": "why", **parameters}):
        all_of_them.tasks += some.tasks
    return all_of_them


def stand(connection: Connection, *ids: int) -> list[str]:
    return [
        connection.execute("select status from stoker.task_queue where id = %s", (task,)).fetchone()[0]  # type: ignore[index]
        for task in ids
    ]


def events(connection: Connection) -> list[tuple[Any, ...]]:
    return connection.execute("select action, actor, reason, task, mode from stoker.events order by event").fetchall()


def fail(stoker: Database, worker: str, kind: str = "E") -> list[int]:
    """Claim what is at the head and fail it."""
    claimed = claim(stoker, worker, 100)
    bad = [ended(task, "failed", error_kind=kind) for task in claimed.ids]
    assert settle(stoker, claimed.token, ended=bad, failed=len(bad))
    return claimed.ids


def lose(stoker: Database, worker: str, seconds: float) -> int:
    """A side effect whose outcome is not known, its runner dead in so many seconds."""
    claimed = claim(stoker, worker, 1, dead_after=seconds, side_effect=True)
    assert settle(stoker, claimed.token, ended=[ended(claimed.ids[0], "unknown", error_kind="lost")])
    return claimed.ids[0]


def test_retry_queues_what_ended_badly_with_all_its_attempts(stoker: Database, connection: Connection, worker: str) -> None:
    """failed, cancelled -> queued; what is done, queued or gone is left, and said to be."""
    failed, cancelled = fill(connection, 2)
    do(stoker, moves.CANCEL, cancelled)
    assert fail(stoker, worker) == [failed]
    (done,) = fill(connection, 1)
    settle_plain(stoker, claim(stoker, worker))
    (queued,) = fill(connection, 1)
    moved = do(stoker, moves.RETRY, failed, cancelled, done, queued, 999)
    assert (moved.changed, moved.unchanged) == ({"queued": 2}, {"done": 1, "missing": 1, "queued": 1})
    assert connection.execute("select lo, attempts from stoker.ready order by lo").fetchall() == [
        (failed, 0),
        (cancelled, 0),
        (queued, 0),
    ]
    assert events(connection)[1:] == [("retry", "ann", "why", failed, "m"), ("retry", "ann", "why", cancelled, "m")]
    check(connection)


def test_cancel_ends_whatever_no_worker_has(stoker: Database, connection: Connection, worker: str) -> None:
    """In the middle of a span, for later, held, in a line, unknown; once, and without a trace of a second event."""
    (side,) = fill(connection, 1)
    assert lose(stoker, worker, 60.0) == side
    ids = fill(connection, 9, span=9)
    later = enqueue(connection, NewTask("m", available_at=None))
    connection.execute("select stoker.take_out(%s)", (later,))
    connection.execute("select stoker.place(%s, 1, now() + interval '1 h')", (later,))
    held = enqueue(connection, NewTask("m", needs_approval=True))
    line = [enqueue(connection, NewTask("m", lane_key="k")) for _ in range(3)]
    wanted = [side, ids[4], ids[0], ids[8], later, held, line[1]]
    assert do(stoker, moves.CANCEL, *wanted).changed == {"cancelled": 7}
    moved = do(stoker, moves.CANCEL, *wanted)
    assert (moved.changed, moved.unchanged) == ({}, {"cancelled": 7})
    assert check(connection) == Counts(ready=7, cancelled=7, in_line=1)
    assert len(events(connection)) == 7
    assert connection.execute("select actor, reason, attempts from stoker.cancelled where id = %s", (later,)).fetchall() == [
        ("ann", "why", 1)
    ]


def test_the_end_of_a_front_by_a_person_lets_the_next_come(stoker: Database, connection: Connection) -> None:
    """R51: cancelled, it makes room; held, it keeps its place and the line waits."""
    line = [enqueue(connection, NewTask("m", lane_key="k")) for _ in range(3)]
    do(stoker, moves.CANCEL, line[0])
    assert connection.execute("select lo from stoker.ready").fetchall() == [(line[1],)]
    do(stoker, moves.HOLD, line[1])
    sweep(stoker, installation=str(uuid.uuid4()))
    assert check(connection) == Counts(held=1, in_line=1, cancelled=1)
    do(stoker, moves.RESUME, line[1], answer=None)
    assert connection.execute("select lo from stoker.ready").fetchall() == [(line[1],)]
    assert check(connection) == Counts(ready=1, in_line=1, cancelled=1)


def test_what_a_worker_has_is_requested_until_it_settles(stoker: Database, connection: Connection, worker: str) -> None:
    """R53: not called cancelled before it is; asked for twice it is one request and one event."""
    good, bad = fill(connection, 2)
    token = claim(stoker, worker, 2).token
    assert do(stoker, moves.CANCEL, good, bad).changed == {"requested": 2}
    assert do(stoker, moves.CANCEL, good, bad).changed == {"requested": 2}
    assert len(events(connection)) == 2
    assert stand(connection, good, bad) == ["in_progress", "in_progress"]
    settle(stoker, token, los=[good], his=[good], tries=[1], seconds=[0.1], labels=[None], results=[None], done=1,
           ended=[ended(bad, "retry")], retried=1)  # fmt: skip
    assert stand(connection, good, bad) == ["done", "cancelled"]
    assert connection.execute("select done, retried from stoker.workers").fetchall() == [(1, 0)]
    moved = do(stoker, moves.CANCEL, good)
    assert (moved.changed, moved.unchanged) == ({}, {"done": 1})
    assert connection.execute("select count(*) from stoker.cancel_requests").fetchall() == [(0,)]


def test_a_request_looks_once_more_whether_the_task_came_back(
    stoker: Database, connection: Connection, worker: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R53: it went back to the queue after the request was written, by a settlement that had not seen it."""
    (task,) = fill(connection, 1)
    token = claim(stoker, worker).token
    once = moves._once
    looks: list[dict[str, int]] = []

    def between(*arguments: Any) -> Moved:
        moved = once(*arguments)
        if not looks:
            connection.execute("delete from stoker.claims where token = %s", (token,))
            connection.execute("select stoker.place(%s, 1, null)", (task,))
        looks.append(moved.changed)
        return moved

    monkeypatch.setattr(moves, "_once", between)
    assert do(stoker, moves.CANCEL, task).changed == {"cancelled": 1}
    assert looks == [{"requested": 1}, {"cancelled": 1}]
    assert check(connection) == Counts(cancelled=1)


@pytest.mark.parametrize("verdict", ["done", "failed", "queued"])
def test_a_person_says_what_became_of_an_unknown_task(
    stoker: Database, connection: Connection, worker: str, verdict: str
) -> None:
    """P3: not before its old runner is certainly dead, unless forced; and only what is unknown."""
    (task,) = fill(connection, 1)
    assert lose(stoker, worker, 3600.0) == task
    moved = do(stoker, moves.RELEASE, task, verdict=verdict, forced=False)
    assert (moved.changed, moved.unchanged) == ({}, {"too early": 1})
    assert stand(connection, task) == ["unknown"]
    connection.execute("update stoker.unknown set dead_by = now()")
    assert do(stoker, moves.RELEASE, task, verdict=verdict, forced=False).changed == {verdict: 1}
    assert stand(connection, task) == [verdict]
    assert do(stoker, moves.RELEASE, task, verdict=verdict, forced=True).unchanged == {verdict: 1}
    check(connection)


def test_a_forced_release_does_not_wait(stoker: Database, connection: Connection, worker: str) -> None:
    """And one that was to be cancelled is not queued again."""
    fill(connection, 2)
    first, second = (lose(stoker, worker, 3600.0) for _ in range(2))
    connection.execute("insert into stoker.cancel_requests (id, actor) values (%s, 'bob')", (second,))
    assert do(stoker, moves.RELEASE, first, second, verdict="queued", forced=True).changed == {"cancelled": 1, "queued": 1}
    assert connection.execute("select actor from stoker.cancelled").fetchall() == [("bob",)]
    assert check(connection) == Counts(ready=1, cancelled=1)


def test_approval_is_given_or_refused(stoker: Database, connection: Connection) -> None:
    """Only what waits for approval; its delay still counts; a refusal is a failure with its reason, and ends its line."""
    ids = [enqueue(connection, NewTask("m", needs_approval=True, lane_key="k")) for _ in range(3)]
    other = enqueue(connection, NewTask("m"))
    do(stoker, moves.HOLD, other)
    moved = do(stoker, moves.APPROVE, ids[0], ids[1], other, refused=False)
    assert (moved.changed, moved.unchanged) == ({"queued": 2}, {"held": 1})
    assert check(connection) == Counts(ready=1, in_line=1, held=2)
    do(stoker, moves.APPROVE, ids[2], refused=True)
    assert connection.execute("select error_kind, error, fire from stoker.failed").fetchall() == [("refused", "why", None)]
    assert [row[0] for row in events(connection)] == ["hold", "approve", "approve", "refuse"]
    assert do(stoker, moves.RESUME, ids[2], other, answer=None).changed == {"queued": 1}
    check(connection)


def test_a_hold_keeps_delay_attempts_and_expiry(stoker: Database, connection: Connection, worker: str) -> None:
    """And nobody claims it meanwhile; what is held already is left as it is."""
    (task,) = fill(connection, 1)
    settle(stoker, claim(stoker, worker).token, ended=[ended(task, "retry", delay=3600.0)])
    ((due,),) = connection.execute("select available_at from stoker.later").fetchall()
    assert do(stoker, moves.HOLD, task).changed == {"held": 1}
    moved = do(stoker, moves.HOLD, task)
    assert (moved.changed, moved.unchanged) == ({}, {"held": 1})
    assert claim(stoker, worker).ids == []
    assert connection.execute("select kind, attempts, question from stoker.held").fetchall() == [("operator", 1, "why")]
    do(stoker, moves.RESUME, task, answer="the blue one")
    assert connection.execute("select available_at, attempts from stoker.later").fetchall() == [(due, 1)]
    ((detail,),) = connection.execute("select detail from stoker.events where action = 'resume'").fetchall()
    assert detail == {"kind": "operator", "answered": True}


@pytest.mark.parametrize("way", ["retry", "key"])
@pytest.mark.parametrize("end", ["refused", "cancelled", "approved"])
def test_a_task_opened_again_waits_for_the_approval_it_never_had(
    stoker: Database, connection: Connection, worker: str, way: str, end: str
) -> None:
    """Whoever opens it again, an operator by a filter or a producer by its key; once approved it needs no more."""
    new = NewTask("m", 1, key="k", needs_approval=True)
    task = enqueue(connection, new)
    if end == "approved":
        do(stoker, moves.APPROVE, task, refused=False)
        assert settle(stoker, claim(stoker, worker).token, ended=[ended(task, "failed")])
    else:
        do(stoker, moves.APPROVE, task, refused=True) if end == "refused" else do(stoker, moves.CANCEL, task)
    if way == "retry":
        assert do(stoker, moves.RETRY, task).changed == {"queued" if end == "approved" else "held": 1}
    else:
        assert enqueue(connection, replace(new, retry_terminal=True)) == task
    assert claim(stoker, worker).ids == ([task] if end == "approved" else [])
    if end != "approved":
        assert connection.execute("select kind from stoker.held where id = %s", (task,)).fetchall() == [("approval",)]


def test_erasing_leaves_the_fact_alone(stoker: Database, connection: Connection, worker: str) -> None:
    """E: payload, result, outputs, error texts, steps, progress are gone; refused while unfinished; never tried again."""
    failed, done, queued, claimed = fill(connection, 4)
    token = claim(stoker, worker, 2).token
    outputs = [{"id": failed, "attempt": 1, "output": "printed"}]
    settle(stoker, token, los=[done], his=[done], tries=[1], seconds=[0.1], labels=["ok"], results=['"secret"'], done=1,
           ended=[ended(failed, "failed", error="secret")], outputs=outputs, failed=1)  # fmt: skip
    connection.execute("insert into stoker.steps (id, name, attempt, result) values (%s, 's', 1, '\"secret\"')", (failed,))
    connection.execute("insert into stoker.progress (id, attempt, words) values (%s, 1, 'secret')", (failed,))
    assert claim(stoker, worker, mark_lo=queued, mark_priority=0).ids == [claimed]
    moved = do(stoker, moves.ERASE, failed, done, queued, claimed, forced=False)
    assert (moved.changed, moved.unchanged) == ({"erased": 2}, {"in_progress": 1, "queued": 1})
    assert connection.execute("select payload, erased_at is null from stoker.tasks where id = any(%s) order by id",
                              ([failed, done, queued],)).fetchall() == [(None, False), (None, False), ({}, True)]  # fmt: skip
    (called_off,) = fill(connection, 1)
    assert do(stoker, moves.CANCEL, called_off, reason="secret").changed == {"cancelled": 1}
    assert do(stoker, moves.ERASE, called_off, forced=False).changed == {"erased": 1}
    tables = ("tasks", "outcomes", "attempts", "failed", "cancelled", "outputs", "steps", "progress")
    for table in tables:
        rows = connection.execute(f"select row_to_json(t)::text from stoker.{table} t").fetchall()
        assert not any("secret" in row[0] or "printed" in row[0] for row in rows), table
    assert do(stoker, moves.RETRY, failed).unchanged == {"erased": 1}
    assert connection.execute("select stoker.reopen(%s)", (failed,)).fetchall() == [(False,)]
    assert do(stoker, moves.ERASE, queued, claimed, forced=True).changed == {"erased": 1, "requested": 1}
    assert stand(connection, failed, done, queued, claimed) == ["failed", "done", "cancelled", "in_progress"]
    assert [row[0] for row in events(connection)] == ["erase", "erase", "cancel", "erase", "cancel", "erase", "cancel"]


def test_events_are_written_once(stoker: Database, connection: Connection) -> None:
    """Append-only, and in the transaction of the move: what is rolled back tells nothing."""
    (task,) = fill(connection, 1)
    with connection.transaction(force_rollback=True):
        connection.execute("select stoker.cancel_task(%s, 'ann', 'why')", (task,))
        assert events(connection) == [("cancel", "ann", "why", task, "m")]
    assert (stand(connection, task), events(connection)) == (["queued"], [])
    do(stoker, moves.CANCEL, task)
    with pytest.raises(psycopg.errors.RaiseException, match="written once"):
        connection.execute("update stoker.events set reason = 'other'")


def test_filters_find_what_they_say(stoker: Database, connection: Connection, worker: str) -> None:
    """Mode, state, age, kind of error, tag and key; cancelled and unknown ones only when they are named."""
    old, young = fill(connection, 2)
    assert claim(stoker, worker).ids == [old]
    connection.execute("update stoker.claims set claimed_at = now() - interval '2 h'")
    tagged = enqueue(connection, NewTask("n", key="k", tags=("big", "red")))
    other = enqueue(connection, NewTask("n", key="l", tags=("big",)))
    cancelled = enqueue(connection, NewTask("n"))
    do(stoker, moves.CANCEL, cancelled)

    def found(verb: Verb, **filters: Any) -> list[int]:
        return [task.id for task in moves.find(stoker, verb, Filters(**filters))]

    assert found(moves.CANCEL, mode="m") == [old, young]
    assert found(moves.CANCEL, mode="m", state="queued") == [young]
    assert found(moves.CANCEL, older_seconds=3600.0) == [old]
    assert found(moves.CANCEL, tag="big") == [tagged, other]
    assert found(moves.HOLD, key="k") == [tagged]
    assert found(moves.RETRY, mode="n") == []
    assert found(moves.RETRY, mode="n", state="cancelled") == [cancelled]
    settle(stoker, claim(stoker, worker).token, ended=[ended(young, "failed", error_kind="Boom")])
    assert (found(moves.RETRY, kind="Boom"), found(moves.RETRY, kind="Other")) == ([young], [])


def test_many_are_moved_in_bounded_batches_of_which_each_is_a_commit(
    stoker: Database, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A break in the middle leaves what was committed, and nothing half."""
    monkeypatch.setattr(moves, "AT_ONCE", 10)
    ids = fill(connection, 25, span=25)
    steps = moves.move(stoker, moves.CANCEL, ids, {"actor": "ann", "reason": None})
    assert len(next(steps).tasks) == 10
    assert check(connection) == Counts(ready=15, cancelled=10)
    assert [len(some.tasks) for some in steps] == [10, 5]
    assert check(connection) == Counts(cancelled=25)
    assert connection.execute("select count(distinct xmin::text) from stoker.events").fetchall() == [(3,)]


def test_the_first_commit_wins_between_a_person_and_a_worker(database: str, stoker: Database, connection: Connection) -> None:
    """R53, P1, P2: cancel lands at every moment around claim and settlement. Cancelled is for good; requested is until then."""
    fire = open_fire(stoker)
    people = Database(Target(database))
    seen: dict[str, int] = {}
    dice = random.Random(53)
    with ThreadPoolExecutor(2) as pool:
        worker = register(stoker, fire)
        desk = Desk(orders(stoker, fire, worker), stoker)
        for _ in range(300):
            (task,) = fill(connection, 1)
            outcome = dice.choice(["done", RETRY, FAILED])
            work = pool.submit(_run_one, desk, outcome)
            time.sleep(dice.randrange(0, 8) / 1000)
            said = pool.submit(do, people, moves.CANCEL, task).result(30).tasks[0]
            if said[2] == "cancelled":
                assert stand(connection, task) == ["cancelled"]
            work.result(30)
            (after,) = stand(connection, task)
            seen[f"{said[2]} {after}"] = seen.get(f"{said[2]} {after}", 0) + 1
            if said[2] == "cancelled":
                assert after == "cancelled"
            elif said[2] is None:
                assert after == said[1]
            else:
                assert after in ("done", "failed", "cancelled"), "an attempt may follow on what was to be cancelled"
    people.close()
    check(connection)
    stoker.run("answer_requests", ids=None, limit=1000)
    assert connection.execute("select count(*) from stoker.cancel_requests").fetchall() == [(0,)]
    assert seen.keys() >= {"cancelled cancelled", "None done"}, seen
    assert any(name.startswith("requested") for name in seen), seen


def test_nobody_is_lost_or_doubled_while_people_and_workers_move_the_same_spans(
    database: str, stoker: Database, connection: Connection
) -> None:
    """P1: two people take out of the middle of spans, and put back, what two workers claim from their heads."""
    ids = fill(connection, 400, span=40)
    fire = open_fire(stoker)

    def work() -> None:
        with_own = Database(Target(database))
        desk = Desk(orders(with_own, fire, register(with_own, fire)), with_own)
        for turn in range(300):
            want = Want(str(uuid.uuid4()), 4, 100, 5, BEFORE_ALL, ahead=False, version=1)
            if (claim := desk.visit([], want, {}).claim) is not None:
                if turn % 10 == 0:
                    claim.end_before(claim.size)
                desk.visit([settlement(claim, give_back=True)], None, {})
        with_own.close()

    def meddle(seed: int) -> None:
        dice, own = random.Random(seed), Database(Target(database))
        for _ in range(120):
            some = dice.sample(ids, 6)
            do(own, moves.HOLD, *some)
            do(own, moves.RESUME, *some[:5], answer=None)
            do(own, moves.CANCEL, some[0])
            do(own, moves.RETRY, some[0])
        own.close()

    with ThreadPoolExecutor(4) as pool:
        for one in [pool.submit(work), pool.submit(work), pool.submit(meddle, 1), pool.submit(meddle, 2)]:
            one.result(60)
    counts = check(connection)
    assert (counts.claimed, counts.failed, counts.unknown) == (0, 0, 0)
    assert min(counts.done, counts.held, counts.ready) > 0


def _run_one(desk: Desk, outcome: str) -> None:
    """Claim one task as a worker does, and end it."""
    want = Want(str(uuid.uuid4()), 1, 100, 1, BEFORE_ALL, ahead=True, version=1)
    claim = desk.visit([], want, {}).claim
    if claim is None:
        return
    time.sleep(0.001)
    if not desk.start(claim):
        return
    time.sleep(0.001)
    if outcome != "done":
        entry = claim.entry(0)
        entry.said, entry.error_kind, entry.error, entry.delay = outcome, "E", "words", 60.0 if outcome == RETRY else None
    claim.end(0)
    desk.visit([settlement(claim)], None, {})
