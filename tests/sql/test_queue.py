"""What producers may ask for: keys, times, lines, approval; in Python and in SQL, which are one mechanism."""

import threading
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import anyio
import psycopg
import pytest
from tests.sql.factory import claim, ended, fill, orders, release, settle, settle_plain
from tests.sql.oracle import Counts, check

from stoker.hygiene.sweep import sweep
from stoker.sql.database import Database
from stoker.sql.enqueue import NewTask, enqueue, enqueue_async, enqueue_many
from stoker.worker.desk import Desk, Want
from stoker.worker.pace import BEFORE_ALL
from stoker.worker.settlement import Settlement, settlement

Connection = psycopg.Connection[Any]
Put = Callable[[Connection, NewTask], int]


def bulk(connection: Connection, task: NewTask) -> int:
    return enqueue_many(connection, [task])[0]


WAYS = pytest.mark.parametrize("put", [enqueue, bulk], ids=["one", "bulk"])


def want(batch: int) -> Want:
    return Want(str(uuid.uuid4()), batch, 100, batch, BEFORE_ALL, ahead=False, version=1)


def status(connection: Connection, key: str) -> str | None:
    return connection.execute("select stoker.status('m', %s)", (key,)).fetchone()[0]  # type: ignore[index, no-any-return]


@WAYS
def test_a_key_is_one_task_while_it_is_unfinished(stoker: Database, connection: Connection, worker: str, put: Put) -> None:
    """Enqueued twice it is the same; claimed too; when it is done the key is free. Keys are of a mode, byte for byte."""
    first = put(connection, NewTask("m", key="k"))
    assert put(connection, NewTask("m", key="k")) == first
    claimed = claim(stoker, worker)
    assert put(connection, NewTask("m", key="k")) == first
    others = [
        put(connection, NewTask(mode, key=key)) for mode, key in (("m", "K"), ("m", "k "), ("n", "k"), ("m", "\u006b\u0301"))
    ]
    assert len({first, *others}) == 5
    assert settle_plain(stoker, claimed)
    second = put(connection, NewTask("m", key="k"))
    assert second not in {first, *others}
    assert status(connection, "k") == "queued"
    check(connection)


@WAYS
def test_a_key_may_be_kept_for_a_while_after(stoker: Database, connection: Connection, worker: str, put: Put) -> None:
    """The window is that of the task which holds it, by the database's clock."""
    first = put(connection, NewTask("m", key="k", key_seconds=60.0))
    settle_plain(stoker, claim(stoker, worker))
    assert put(connection, NewTask("m", key="k")) == first
    assert status(connection, "k") == "done"
    connection.execute("update stoker.outcomes set finished_at = now() - interval '61 s'")
    assert put(connection, NewTask("m", key="k")) != first


@WAYS
def test_a_failed_task_is_opened_again_under_its_key(stoker: Database, connection: Connection, worker: str, put: Put) -> None:
    """Its attempts begin anew; one that is done is not opened."""
    task = put(connection, NewTask("m", key="k", key_seconds=60.0))
    claimed = claim(stoker, worker)
    bad = {"id": task, "attempt": 1, "verdict": "failed", "error_kind": "E", "error": "", "seconds": 0.0, "delay": None}
    assert settle(stoker, claimed.token, ended=[bad])
    assert put(connection, NewTask("m", key="k")) == task
    assert status(connection, "k") == "failed"
    assert put(connection, NewTask("m", key="k", retry_terminal=True)) == task
    assert connection.execute("select attempts from stoker.ready").fetchall() == [(0,)]
    settle_plain(stoker, claim(stoker, worker))
    assert put(connection, NewTask("m", key="k", retry_terminal=True)) == task
    assert status(connection, "k") == "done"


@WAYS
def test_a_task_whose_key_is_anothers_by_now_is_not_opened_beside_it(
    stoker: Database, connection: Connection, worker: str, put: Put
) -> None:
    """One task a key among the unfinished, also when a person tries an old one again; when the new one is over, he may."""
    old = put(connection, NewTask("m", key="k"))
    connection.execute("select stoker.take_out(%s)", (old,))
    connection.execute("insert into stoker.cancelled (id, attempts, actor) values (%s, 0, 'ann')", (old,))
    new = put(connection, NewTask("m", key="k"))
    assert new != old
    assert connection.execute("select was, became from stoker.retry_task(%s, 'ann', null)", (old,)).fetchall() == [
        ("replaced", None)
    ]
    assert settle_plain(stoker, claim(stoker, worker))
    assert connection.execute("select became from stoker.retry_task(%s, 'ann', null)", (old,)).fetchall() == [("queued",)]
    assert put(connection, NewTask("m", key="k")) == old
    assert check(connection) == Counts(ready=1, done=1)


@WAYS
def test_a_loser_waits_and_never_reports_what_was_rolled_back(database: str, connection: Connection, put: Put) -> None:
    """Of two who give one key, whoever commits has it; the other looks again in a new statement."""
    with psycopg.connect(database) as first, psycopg.connect(database) as second, ThreadPoolExecutor(1) as pool:
        lost = put(first, NewTask("m", key="k"))
        waiting = pool.submit(put, second, NewTask("m", key="k"))
        with pytest.raises(TimeoutError):
            waiting.result(0.3)
        first.rollback()
        won = waiting.result(10)
        assert won != lost
        waiting = pool.submit(put, first, NewTask("m", key="k"))
        with pytest.raises(TimeoutError):
            waiting.result(0.3)
        second.commit()
        assert waiting.result(10) == won
        first.commit()
    assert check(connection) == Counts(ready=1)


@WAYS
def test_a_producers_transaction_is_his_to_end(database: str, connection: Connection, put: Put) -> None:
    """The business row and the task commit together or not at all, whichever comes first."""
    connection.execute("create table public.orders (id int)")
    with psycopg.connect(database) as own:
        for number in range(2):
            put(own, NewTask("m", number))
            own.execute("insert into public.orders values (%s)", (number,))
            own.commit() if number else own.rollback()
    assert connection.execute("select payload from stoker.tasks").fetchall() == [(1,)]
    assert connection.execute("select id from public.orders").fetchall() == [(1,)]


def test_of_many_who_give_one_key_at_once_one_task_results(database: str, connection: Connection) -> None:
    """Also when half of them roll back; and two calls with the same keys in other orders never wait in a circle."""
    gate = threading.Barrier(8)

    def producer(number: int) -> list[int]:
        keys = [f"k{n}" for n in range(20)]
        with psycopg.connect(database) as own:
            for _ in range(5):
                gate.wait(30)
                enqueue_many(own, [NewTask("m", key=key) for key in (keys if number % 2 else reversed(keys))])
                own.commit() if number % 4 else own.rollback()
            return list(enqueue_many(own, [NewTask("m", key=key) for key in keys]))

    with ThreadPoolExecutor(8) as pool:
        told = list(pool.map(producer, range(8)))
    assert len({tuple(ids) for ids in told}) == 1
    assert check(connection) == Counts(ready=20)


def test_a_bulk_call_tells_its_duplicates(connection: Connection) -> None:
    """Within the call, and of those before it; ids are in the order given."""
    there = enqueue(connection, NewTask("m", key="b"))
    tasks = [
        NewTask("m", 1, key="a"),
        NewTask("m", 2),
        NewTask("m", 3, key="b"),
        NewTask("m", 4, priority=1, key="a"),
        NewTask("m", 5),
    ]
    ids = enqueue_many(connection, tasks)
    assert ids.duplicates == (2, 3)
    assert ids[2] == there
    assert ids[3] == ids[0]
    assert len(set(ids)) == 4
    rows = connection.execute("select id, payload from stoker.tasks order by id").fetchall()
    assert dict(rows) == {there: None, ids[0]: 1, ids[1]: 2, ids[4]: 5}
    assert check(connection) == Counts(ready=4)


def test_many_keys_again_are_all_duplicates(connection: Connection) -> None:
    """All of a hundred thousand, in one call."""
    tasks = [NewTask("m", n, key=f"k{n}") for n in range(100_000)]
    ids = enqueue_many(connection, tasks)
    assert ids.duplicates == ()
    again = enqueue_many(connection, tasks)
    assert again == ids
    assert len(again.duplicates) == 100_000
    assert check(connection) == Counts(ready=100_000)


@WAYS
def test_what_has_expired_is_never_claimed(stoker: Database, connection: Connection, worker: str, put: Put) -> None:
    """Not by a claim that comes before the sweep either; the sweep moves it to its end."""
    now = datetime.now(UTC)
    late = put(connection, NewTask("m", expires_at=now + timedelta(seconds=0.2)))
    held = put(connection, NewTask("m", expires_at=now + timedelta(seconds=0.2), needs_approval=True))
    good = put(connection, NewTask("m", expires_at=now + timedelta(hours=1)))
    time.sleep(0.3)
    assert claim(stoker, worker, 10).ids == [good]
    assert stoker.run("expire", limit=100) == [(2,)]
    rows = connection.execute("select id, status from stoker.task_queue where id = any(%s) order by id", ([late, held],))
    assert rows.fetchall() == [(late, "expired"), (held, "expired")]
    assert check(connection) == Counts(claimed=1, expired=2)


@WAYS
def test_what_needs_approval_stands_apart(connection: Connection, put: Put) -> None:
    """It is no candidate for a claim."""
    put(connection, NewTask("m", needs_approval=True))
    assert check(connection) == Counts(held=1)
    assert connection.execute("select status, held_for from stoker.task_queue").fetchall() == [("held", "approval")]


@WAYS
def test_tasks_of_one_line_run_one_at_a_time_in_order(stoker: Database, connection: Connection, fire: int, put: Put) -> None:
    """Across workers; lines are of a mode, and do not wait for each other."""
    line = [put(connection, NewTask("m", n, lane_key="a")) for n in range(3)]
    other = put(connection, NewTask("m", lane_key="b"))
    free = put(connection, NewTask("m"))
    assert check(connection) == Counts(ready=3, in_line=2)
    desk = Desk(orders(stoker, fire, str(uuid.uuid4())), stoker)
    assert desk.register({})
    seen: list[list[int]] = []
    settlements: list[Settlement] = []
    while claimed := desk.visit(settlements, want(10), {}).claim:
        seen.append([task for lo, hi, _ in claimed.spans for task in range(lo, hi + 1)])
        claimed.end_before(claimed.size)
        settlements = [settlement(claimed)]
    assert seen == [[line[0], other, free], [line[1]], [line[2]]]
    assert check(connection) == Counts(done=5)
    assert connection.execute("select count(*) from stoker.lines").fetchall() == [(0,)]


def test_a_retry_keeps_its_place_at_the_front(stoker: Database, connection: Connection, worker: str) -> None:
    """R51: what fails is tried again before what stands behind it; its end lets the next come, whoever it was."""
    first, second = (enqueue(connection, NewTask("m", n, lane_key="a")) for n in range(2))
    claimed = claim(stoker, worker)
    bad = {"id": first, "attempt": 1, "verdict": "retry", "error_kind": "E", "error": "", "seconds": 0.0, "delay": 0.0}
    assert settle(stoker, claimed.token, ended=[bad])
    assert stoker.run("move_lines", ids=[first]) == [(0,)]
    stoker.run("promote_due", limit=10)
    assert claim(stoker, worker, 10).ids == [first]
    release(stoker, worker)
    assert check(connection) == Counts(ready=1, in_line=1)
    assert second


def test_an_async_producer_shares_its_transaction(database: str, connection: Connection) -> None:
    """What the caller rolls back was never there."""

    async def produce() -> None:
        async with await psycopg.AsyncConnection.connect(database) as own:
            await enqueue_async(own, NewTask("m", 1))
            await own.rollback()
            await enqueue_async(own, NewTask("m", 2))
            await own.commit()

    anyio.run(produce)
    assert connection.execute("select payload from stoker.tasks").fetchall() == [(2,)]


def test_sql_alone_is_enough(connection: Connection) -> None:
    """For triggers and any language: named arguments, defaults, clear refusals, nothing left of a refused one."""
    ((task,),) = connection.execute("select stoker.enqueue('m', '{\"a\": 1}', tags => '{x,y}', key => 'k')").fetchall()
    assert connection.execute("select payload, tags, key, status from stoker.task_queue where id = %s", (task,)).fetchall() == [
        ({"a": 1}, ["x", "y"], "k", "queued")
    ]
    for arguments, words in (
        ("'', '1'", "mode must be"),
        (f"'{'m' * 64}', '1'", "mode must be"),
        ("'m', '1', version => 0", "version must be"),
        ("'m', '1', key => ''", "key must be"),
        ("'m', '1', max_attempts => 0", "max_attempts"),
        ("'m', '{'", "json"),
    ):
        with pytest.raises(psycopg.Error, match=words):
            connection.execute(f"select stoker.enqueue({arguments})")
    connection.execute("update stoker.installation set payload_limit = 10")
    with pytest.raises(psycopg.errors.ProgramLimitExceeded, match="above the limit of 10"):
        connection.execute("select stoker.enqueue('m', '\"12345678901\"')")
    connection.execute("insert into stoker.modes (mode, version) values ('m', 3)")
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="unknown mode 'n'"):
        connection.execute("select stoker.enqueue('n', '1')")
    connection.execute("select stoker.enqueue('n', '1', allow_unknown => true)")
    connection.execute("select stoker.enqueue('m', '1')")
    assert connection.execute("select version from stoker.tasks order by id").fetchall() == [(1,), (1,), (3,)]
    check(connection)


def test_a_trigger_enqueues_in_the_transaction_of_its_row(connection: Connection, database: str) -> None:
    """The business row and the task commit together, or not at all."""
    connection.execute("create table public.orders (id int)")
    connection.execute(
        "create function public.on_order() returns trigger language plpgsql as"
        " $$ begin perform stoker.enqueue('m', json_build_object('order', new.id)); return new; end $$"
    )
    connection.execute("create trigger t after insert on public.orders for each row execute function public.on_order()")
    with psycopg.connect(database) as own:
        own.execute("insert into public.orders values (1)")
        own.rollback()
        own.execute("insert into public.orders values (2)")
        own.commit()
    assert connection.execute("select payload from stoker.tasks").fetchall() == [({"order": 2},)]


def test_nobody_may_call_what_was_not_given_to_him(connection: Connection, database: str) -> None:
    """T05: no function is open to everybody."""
    rows = connection.execute(
        "select proname from pg_proc"
        " where pronamespace = 'stoker'::regnamespace and has_function_privilege('public', oid, 'execute')"
    ).fetchall()
    assert rows == []


def test_the_sweep_heals_what_a_line_was_left_in(stoker: Database, connection: Connection) -> None:
    """R51: a front that ended without a word to those behind it; a line without a front."""
    tasks = [enqueue(connection, NewTask("m", lane_key=key)) for key in ("a", "a", "b", "b")]
    for task in (tasks[0], tasks[2]):
        connection.execute("select stoker.take_out(%s)", (task,))
        connection.execute("insert into stoker.cancelled (id, attempts, actor) values (%s, 0, 'test')", (task,))
    connection.execute("delete from stoker.lines where lane_key = 'b'")
    sweep(stoker, installation=str(uuid.uuid4()))
    assert check(connection) == Counts(ready=2, cancelled=2)
    assert connection.execute("select lane_key, id from stoker.lines order by 1").fetchall() == [
        ("a", tasks[1]),
        ("b", tasks[3]),
    ]


def test_requests_for_what_is_unknown_keep_no_other_back(stoker: Database, connection: Connection, worker: str) -> None:
    """R53: a person decides of those, and may take long."""
    unknown = fill(connection, 3)
    claimed = claim(stoker, worker, 3, side_effect=True)
    assert settle(stoker, claimed.token, ended=[ended(task, "unknown", error_kind="lost") for task in unknown])
    (queued,) = fill(connection, 1)
    connection.execute("insert into stoker.cancel_requests (id, actor) select id, 'test' from stoker.tasks")
    assert stoker.run("answer_requests", ids=None, limit=2) == [(1,)]
    assert connection.execute("select id from stoker.cancelled").fetchall() == [(queued,)]
    assert check(connection) == Counts(unknown=3, cancelled=1)


def test_the_sweep_makes_true_what_was_to_be_cancelled(stoker: Database, connection: Connection, worker: str) -> None:
    """R53: a request that met nobody, since the task went back to the queue at that moment, or ended."""
    waiting, done, claimed = (enqueue(connection, NewTask("m")) for _ in range(3))
    connection.execute("insert into stoker.cancel_requests (id, actor) select id, 'test' from stoker.tasks")
    settle_plain(stoker, claim(stoker, worker, mark_lo=waiting, mark_priority=0))
    assert claim(stoker, worker, mark_lo=done, mark_priority=0).ids == [claimed]
    sweep(stoker, installation=str(uuid.uuid4()))
    assert check(connection) == Counts(claimed=1, done=1, cancelled=1)
    assert connection.execute("select id from stoker.cancel_requests").fetchall() == [(claimed,)]
    release(stoker, worker)
    assert check(connection) == Counts(done=1, cancelled=2)
