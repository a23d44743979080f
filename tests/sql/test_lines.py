"""Tasks that stand in line: the order holds also where a front went without a word, in bulk, and between transactions."""

import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
from tests.sql.factory import claim, orders, settle
from tests.sql.oracle import Counts, check

from stoker.hygiene.sweep import sweep
from stoker.orchestrator import moves
from stoker.sql.database import Database
from stoker.sql.enqueue import NewTask, enqueue, enqueue_many
from stoker.sql.target import Target
from stoker.worker.desk import Desk, Want
from stoker.worker.pace import BEFORE_ALL
from stoker.worker.settlement import settlement

Connection = psycopg.Connection[Any]


def fronts(connection: Connection) -> dict[str, int]:
    """Who is at the front of each line."""
    return dict(connection.execute("select lane_key, id from stoker.lines").fetchall())


def test_who_comes_to_a_line_without_a_front_does_not_overtake_those_who_stand_in_it(connection: Connection) -> None:
    """R51: it lost its front while somebody came to stand behind it."""
    first, second = (enqueue(connection, NewTask("m", n, lane_key="a")) for n in range(2))
    connection.execute("select stoker.take_out(%s)", (first,))
    connection.execute("insert into stoker.cancelled (id, attempts, actor) values (%s, 0, 'test')", (first,))
    connection.execute("delete from stoker.lines")
    third = enqueue(connection, NewTask("m", 3, lane_key="a"))
    assert fronts(connection) == {"a": second}
    assert connection.execute("select id from stoker.in_line").fetchall() == [(third,)]
    assert check(connection) == Counts(ready=1, in_line=1, cancelled=1)


def test_a_line_keeps_the_order_in_which_its_tasks_were_given_in_bulk(
    stoker: Database, connection: Connection, fire: int
) -> None:
    """Whatever their priorities, versions and times are, and whatever is given between them."""
    given = [NewTask("m", n, lane_key="a" if n % 2 else "b", priority=n % 3 - 1) for n in range(12)]
    given[5:5] = [NewTask("m", n, priority=1) for n in range(3)]
    enqueue_many(connection, given)
    rows = connection.execute("select lane_key, payload from stoker.tasks where lane_key is not null order by id").fetchall()
    assert [n for lane, n in rows if lane == "a"] == [1, 3, 5, 7, 9, 11]
    assert [n for lane, n in rows if lane == "b"] == [0, 2, 4, 6, 8, 10]
    assert check(connection) == Counts(ready=5, in_line=10)


def test_producers_who_come_to_the_same_lines_wait_and_never_in_a_circle(database: str, connection: Connection) -> None:
    """R47: in bulk, each in an order of its own."""
    lanes, errors, gate = [f"l{n}" for n in range(30)], [], threading.Barrier(4)

    def write(turn: int) -> None:
        with psycopg.connect(database, autocommit=True) as own:
            own.execute("set deadlock_timeout = '20ms'")
            for _ in range(5):
                gate.wait(30)
                try:
                    enqueue_many(own, [NewTask("m", lane_key=lane) for lane in (lanes if turn % 2 else lanes[::-1])])
                except psycopg.Error as error:
                    errors.append(error)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(4)))
    assert not errors
    assert check(connection) == Counts(ready=30, in_line=570)


def test_a_front_that_is_cancelled_lets_the_next_come_at_once(stoker: Database, connection: Connection, worker: str) -> None:
    """Queued, or claimed and given back unstarted: nobody waits for the next sweep."""
    line = [enqueue(connection, NewTask("m", n, lane_key="a")) for n in range(3)]
    (moved,) = moves.move(stoker, moves.CANCEL, line[:1], {"actor": "ann", "reason": None})
    assert moved.tasks == [(line[0], "queued", "cancelled")]
    assert fronts(connection) == {"a": line[1]}
    desk = Desk(orders(stoker, _fire_of(connection, worker), worker), stoker)
    claimed = desk.visit((), Want(str(uuid.uuid4()), 1, 100, 2, BEFORE_ALL, False, 1), {}).claim
    assert claimed is not None
    assert claimed.lined
    (moved,) = moves.move(stoker, moves.CANCEL, line[1:2], {"actor": "ann", "reason": None})
    assert moved.tasks == [(line[1], "in_progress", "requested")]
    desk.visit([settlement(claimed, give_back=True)], None, {})
    assert fronts(connection) == {"a": line[2]}
    assert check(connection) == Counts(ready=1, cancelled=2)


def test_a_sweep_moves_more_lines_than_it_takes_at_once(stoker: Database, connection: Connection) -> None:
    """Every line whose front is over, in one sweep."""
    count = 1200
    enqueue_many(connection, [NewTask("m", n, lane_key=f"l{n}") for n in range(count)])
    old = [task for (task,) in connection.execute("select id from stoker.lines").fetchall()]
    enqueue_many(connection, [NewTask("m", n, lane_key=f"l{n}") for n in range(count)])
    connection.execute("select stoker.take_out(id) from unnest(%s::bigint[]) as id", (old,))
    connection.execute(
        "insert into stoker.cancelled (id, attempts, actor) select id, 0, 'test' from unnest(%s::bigint[]) as id", (old,)
    )
    sweep(stoker, installation=str(uuid.uuid4()))
    assert check(connection) == Counts(ready=count, cancelled=count)


def test_a_task_that_is_retried_while_its_line_moves_on_takes_its_turn(
    database: str, stoker: Database, connection: Connection, worker: str
) -> None:
    """Opened again it stands in line by its id; the one at work is not joined."""
    first, second, third = (enqueue(connection, NewTask("m", n, lane_key="a")) for n in range(3))
    claimed = claim(stoker, worker)
    bad = {"id": first, "attempt": 1, "verdict": "failed", "error_kind": "E", "error": "", "seconds": 0.0}
    assert settle(stoker, claimed.token, ended=[bad], failed=1)
    stoker.run("move_lines", ids=[first])
    assert claim(stoker, worker, 10).ids == [second]
    own = Database(Target(database))
    (moved,) = moves.move(own, moves.RETRY, [first], {"actor": "ann", "reason": None})
    own.close()
    assert moved.tasks == [(first, "failed", "queued")]
    assert fronts(connection) == {"a": second}
    assert connection.execute("select id from stoker.in_line order by id").fetchall() == [(first,), (third,)]
    assert check(connection) == Counts(claimed=1, in_line=2)


def _fire_of(connection: Connection, worker: str) -> int:
    return int(connection.execute("select fire from stoker.workers where worker = %s", (worker,)).fetchall()[0][0])
