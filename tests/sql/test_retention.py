"""What is over is kept for a while, then taken out; what unfinished tasks need stays."""

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
from tests.sql.factory import claim, ended, fill, open_fire, register, settle, settle_plain
from tests.sql.oracle import Counts, check
from tests.sql.test_partitions import move_to, partitions

from stoker.sql import retention
from stoker.sql.database import Database
from stoker.sql.enqueue import NewTask, enqueue
from stoker.sql.partitions import PARTITION_IDS, add_partitions
from stoker.sql.retention import prune

Connection = psycopg.Connection[Any]
DAY = 86_400.0
KEEP = 30 * DAY
ENDS = {"outcomes": "finished_at", "failed": "failed_at", "cancelled": "cancelled_at", "expired": "expired_at"}


def age(connection: Connection, days: int = 31) -> None:
    """What is in the tables happened so many days earlier."""
    for table, column in {**ENDS, "tasks": "created_at"}.items():
        connection.execute(f"update stoker.{table} set {column} = {column} - interval '{days} days'")


def rest_is_over(connection: Connection) -> None:
    connection.execute("update stoker.marks set resume_at = '-infinity'")


def places(connection: Connection, table: str) -> list[int]:
    return [row[0] for row in connection.execute(f"select id from stoker.{table} order by id").fetchall()]


def test_what_ended_long_ago_is_taken_out_and_the_rest_stays(stoker: Database, connection: Connection, worker: str) -> None:
    """Also its attempts, its output, its steps, its key; an unfinished one keeps all of them, however old it is."""
    old = [enqueue(connection, NewTask("m", n, key=f"k{n}", tags=("t",))) for n in range(3)]
    waiting = enqueue(connection, NewTask("m", 9, key="w"))
    claimed = claim(stoker, worker, 4)
    connection.execute("insert into stoker.cancel_requests (id, actor) values (%s, 'test')", (old[2],))
    assert settle(stoker, claimed.token, los=[old[0]], his=[old[0]], tries=[1], seconds=[0.1], labels=[None], results=["1"],
                  ended=[ended(old[1], "failed"), ended(old[2], "retry"), ended(waiting, "retry")], done=1, failed=1,
                  outputs=[{"id": task, "attempt": 1, "output": "said"} for task in (*old, waiting)])  # fmt: skip
    connection.execute("insert into stoker.steps (id, name, attempt) select id, 's', 1 from stoker.tasks")
    connection.execute("insert into stoker.progress (id, attempt) select id, 1 from stoker.tasks")
    assert prune(stoker, KEEP).tasks == 0
    age(connection)
    young = enqueue(connection, NewTask("m", 10))
    assert settle_plain(stoker, claim(stoker, worker))
    rest_is_over(connection)
    assert prune(stoker, KEEP).tasks == 3
    assert check(connection) == Counts(later=1, done=1)
    assert places(connection, "tasks") == [waiting, young]
    for table in ("attempts", "outputs", "steps", "progress", "keys"):
        assert places(connection, table) == [waiting]
    assert connection.execute("select count(*) from stoker.task_queue").fetchone() == (2,)


@pytest.mark.parametrize("finish", ["question", "unknown", "held", "line", "ready", "claimed"])
def test_what_is_not_over_is_never_old(stoker: Database, connection: Connection, worker: str, finish: str) -> None:
    """However long a person takes."""
    task = enqueue(connection, NewTask("m", needs_approval=finish == "held", lane_key="a" if finish == "line" else None))
    enqueue(connection, NewTask("m", lane_key="a")) if finish == "line" else None
    if finish in ("question", "unknown", "claimed"):
        token = claim(stoker, worker).token
        if finish != "claimed":
            assert settle(stoker, token, ended=[ended(task, {"question": "held"}.get(finish, finish))])
    age(connection, 400)
    before = places(connection, "tasks"), check(connection)
    prune(stoker, KEEP)
    assert (places(connection, "tasks"), check(connection)) == before


def test_a_key_that_is_not_free_keeps_its_task(stoker: Database, connection: Connection, worker: str) -> None:
    """A window longer than things are kept holds."""
    task = enqueue(connection, NewTask("m", key="k", key_seconds=60 * DAY))
    settle_plain(stoker, claim(stoker, worker))
    age(connection)
    assert prune(stoker, KEEP).tasks == 0
    assert enqueue(connection, NewTask("m", key="k")) == task
    age(connection)
    rest_is_over(connection)
    assert prune(stoker, KEEP).tasks == 1
    assert enqueue(connection, NewTask("m", key="k")) != task
    check(connection)


def test_a_call_does_a_bounded_piece_and_the_next_goes_on(stoker: Database, connection: Connection, worker: str) -> None:
    """Oldest first; a span of outcomes across the end of a piece goes with it."""
    retention_rows = retention._ROWS * retention._ROUNDS
    count = retention_rows + 7 * 700
    fill(connection, count, span=700)
    while (claimed := claim(stoker, worker, 700, chunk=1000)).ids:
        settle_plain(stoker, claimed)
    age(connection)
    first = prune(stoker, KEEP).tasks
    assert retention_rows <= first <= retention_rows + 5 * 700
    left = places(connection, "tasks")
    assert len(left) == count - first
    assert min(left) > first
    assert prune(stoker, KEEP).tasks == len(left)
    assert prune(stoker, KEEP).tasks == 0
    assert check(connection) == Counts()


def test_what_stays_is_not_looked_at_each_time(stoker: Database, connection: Connection) -> None:
    """At its end the mark rests: a sweep costs the same whatever history stays."""
    fill(connection, 2000)
    age(connection)
    fill(connection, 2000)
    prune(stoker, KEEP)
    ((mark, rests),) = connection.execute(
        "select id, resume_at > now() + interval '7 hours' from stoker.marks where name = 'tasks'"
    ).fetchall()
    assert (mark, rests) == (0, True)
    assert stoker.run("due_marks", pause=KEEP / 100) == []
    assert "tasks" in dict(stoker.run("due_marks", pause=KEEP / 1000 / 100)), "who keeps things for less does not wait it out"


def test_a_lock_does_not_break_it(stoker: Database, connection: Connection, database: str, worker: str) -> None:
    """The next call goes on where this one could not."""
    fill(connection, 3)
    settle_plain(stoker, claim(stoker, worker, 3))
    age(connection)
    with psycopg.connect(database) as other:
        other.execute("select from stoker.tasks for update")
        pruned = prune(stoker, KEEP)
        assert (pruned.tasks, pruned.is_interrupted) == (0, True)
        assert check(connection) == Counts(done=3)
    assert prune(stoker, KEEP).tasks == 3


def test_old_fires_go_with_their_notes_and_workers_but_the_last_hundred_stay(stoker: Database, connection: Connection) -> None:
    """And the newest of every lane; events and hosts too."""
    for n in range(120):
        fire = open_fire(stoker, "rare" if n == 0 else f"lane-{n % 2}-{n // 2}" if n > 110 else "main")
        register(stoker, fire)
        connection.execute("update stoker.fires set state = 'closed', closed_at = now() where fire = %s", (fire,))
        connection.execute("update stoker.workers set exited_at = now()")
        stoker.run("write_note", fire=fire, verdict="done", facts="{}")
    connection.execute("update stoker.fires set closed_at = closed_at - interval '31 days'")
    for day in (0, 31):
        connection.execute(
            "insert into stoker.events (actor, action, at) values ('a', 'b', now() - interval '1 day' * %s)", (day,)
        )
    connection.execute("insert into stoker.hosts values ('b', 'h', 0, now() - interval '31 days')")
    pruned = prune(stoker, KEEP)
    assert (pruned.fires, pruned.events) == (19, 1)
    for table in ("fires", "notes", "workers"):
        assert connection.execute(f"select count(*), count(*) filter (where fire = 1) from stoker.{table}").fetchone() == (
            101,
            1,
        )
    assert connection.execute("select count(*) from stoker.hosts").fetchone() == (0,)


def loaded(stoker: Database, connection: Connection, worker: str) -> None:
    """Partitions 0 to 3, and tasks done in each of the first three."""
    for number in range(3):
        move_to(connection, number * PARTITION_IDS + 5)
        fill(connection, 4, span=2)
        settle_plain(stoker, claim(stoker, worker, 4))
    move_to(connection, 3 * PARTITION_IDS + 5)
    add_partitions(stoker)


def test_a_partition_that_nobody_needs_is_dropped_whole(stoker: Database, connection: Connection, worker: str) -> None:
    """All its tables together, one a sweep, with what stands of its tasks elsewhere."""
    loaded(stoker, connection, worker)
    bad = PARTITION_IDS + 99
    connection.execute("insert into stoker.tasks (id, mode, payload) values (%s, 'm', '{}')", (bad,))
    connection.execute("insert into stoker.failed (id, attempts, fire, error_kind) values (%s, 1, 1, 'E')", (bad,))
    connection.execute("insert into stoker.keys (mode, key, id) values ('m', 'k', %s)", (bad,))
    age(connection)
    connection.execute("update stoker.marks set resume_at = now() + interval '1 hour' where name = 'tasks'")
    assert [prune(stoker, KEEP).partitions for _ in range(5)] == [1, 1, 1, 0, 0]
    for table in ("tasks", "outcomes", "attempts", "outputs"):
        assert partitions(connection, table) == ["3", "4", "5", "beyond"]
    assert check(connection) == Counts()
    assert places(connection, "keys") == []
    assert add_partitions(stoker) == 0


_READY = "insert into stoker.ready (mode, version, priority, lo, hi) values ('z', 1, 0, {0}, {0});"
_FAILED = "insert into stoker.failed (id, attempts, fire, error_kind, failed_at) values ({0}, 1, 1, 'E', now() - interval "
KEEPERS = {
    "ready": _READY,
    "later": "insert into stoker.later (mode, version, priority, lo, hi, available_at) values ('z', 1, 0, {0}, {0}, now())",
    "claimed": "insert into stoker.claims (token, worker, fire, mode, side_effect, max_attempts, los, his, attempts, taken,"
    " started, dead_by) values ('{1}', '{1}', 1, 'z', false, 1, '{{{0}}}', '{{{0}}}', '{{0}}', 1, true, now())",
    "held": "insert into stoker.held (id, kind) values ({0}, 'approval')",
    "unknown": "insert into stoker.unknown (id, attempts, fire, worker, token, dead_by, error_kind)"
    " values ({0}, 1, 1, '{1}', '{1}', now(), 'E')",
    "young": "insert into stoker.outcomes (lo, hi, fire, worker, token, attempt, seconds)"
    " values ({0}, {0}, 1, '{1}', '{1}', 1, 0)",
    "failed": f"{_FAILED} '1 d')",
    "key": f"{_FAILED} '31 d'); insert into stoker.keys (mode, key, id, seconds) values ('z', 'k', {{0}}, 1e7)",
    "net": "alter table stoker.tasks detach partition stoker.tasks_1;"
    " with m as (delete from stoker.tasks_1 where id = {0} returning *) insert into stoker.tasks_beyond select * from m;"
    f" {_READY}",
}


@pytest.mark.parametrize("kept_by", KEEPERS)
def test_a_partition_with_one_that_is_needed_stays(stoker: Database, connection: Connection, worker: str, kept_by: str) -> None:
    """Those around it go; its own old tasks go row by row."""
    loaded(stoker, connection, worker)
    needed = PARTITION_IDS + 100
    connection.execute("insert into stoker.tasks (id, mode, payload) values (%s, 'z', '{}')", (needed,))
    age(connection)
    connection.execute(KEEPERS[kept_by].format(needed, worker).encode())
    for _ in range(6):
        rest_is_over(connection)
        prune(stoker, KEEP)
    assert partitions(connection, "outcomes") == ["1", "3", "4", "5", "beyond"]
    assert needed in places(connection, "tasks")
    assert places(connection, "tasks") == [needed]
    check(connection)


def test_a_partition_that_is_being_read_is_dropped_next_time(
    stoker: Database, connection: Connection, worker: str, database: str
) -> None:
    """Nobody queues behind the sweep for longer than its short wait; nothing is half dropped."""
    loaded(stoker, connection, worker)
    connection.execute("update stoker.marks set resume_at = now() + interval '1 hour' where name = 'tasks'")
    age(connection)
    with psycopg.connect(database) as reader:
        reader.execute("select from stoker.outcomes limit 1")
        pruned = prune(stoker, KEEP)
        assert (pruned.partitions, pruned.is_interrupted) == (0, True)
    assert check(connection) == Counts(done=12)
    assert prune(stoker, KEEP).partitions == 1
    assert check(connection) == Counts(done=8)


def test_claims_and_settlements_go_on_beside_it(database: str, stoker: Database, connection: Connection, fire: int) -> None:
    """P1, P2: nothing is lost or done twice, whoever prunes at the same moment."""
    fill(connection, 3000, span=10)
    stop = threading.Event()

    def work(_: int) -> int:
        own, total = Database(stoker.target), 0
        worker = register(own, fire)
        while (claimed := claim(own, worker, 25)).ids:
            assert settle_plain(own, claimed)
            total += len(claimed.ids)
        own.close()
        return total

    def keep_pruning() -> int:
        own, total = Database(stoker.target), 0
        with psycopg.connect(database, autocommit=True) as other:
            while not stop.is_set():
                other.execute("update stoker.marks set resume_at = '-infinity'")
                other.execute("update stoker.tasks set created_at = now() - interval '31 d'")
                other.execute("update stoker.outcomes set finished_at = now() - interval '31 d'")
                total += prune(own, KEEP).tasks
        own.close()
        return total

    with ThreadPoolExecutor(4) as pool:
        pruning = [pool.submit(keep_pruning) for _ in range(2)]
        done = sum(pool.map(work, range(2)))
        stop.set()
        pruned = sum(one.result() for one in pruning)
    counts = check(connection)
    assert counts.done + pruned == done
    assert counts.done + counts.ready + counts.claimed + pruned == 3000
