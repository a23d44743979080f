"""Writers, workers and hygiene at once: deadlocks and serialization failures lose nothing and spend nothing."""

import random
import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
from tests.sql.factory import claim, ended, open_fire, register, release, settle, settle_plain
from tests.sql.oracle import check

from stoker.hygiene.sweep import sweep
from stoker.sql.database import TRANSIENT, Database, DatabaseUnreachableError
from stoker.sql.enqueue import NewTask, enqueue, enqueue_many
from stoker.sql.retention import prune
from stoker.sql.target import Target

Connection = psycopg.Connection[Any]
KEYS = 30


@pytest.mark.parametrize(("seconds", "writers"), [(6.0, 9), pytest.param(600.0, 50, marks=pytest.mark.soak)])
def test_many_writers_with_the_same_keys_and_all_else_at_once(
    database: str, connection: Connection, seconds: float, writers: int
) -> None:
    """R47: one by one in random order, so that they deadlock; in bulk; settled, released, swept and pruned meanwhile.

    A deadlock's victim tries again; every accepted key has its one task; an attempt was spent by settling alone.
    """
    until = time.monotonic() + seconds
    victims: list[str] = []
    pruned: list[int] = []
    lock = threading.Lock()

    def is_time() -> bool:
        return time.monotonic() < until

    def write_singly(number: int) -> int:
        dice, told = random.Random(number), 0
        with psycopg.connect(database, options="-c deadlock_timeout=50ms") as own:
            while is_time():
                keys = dice.sample(range(KEYS), 8)
                try:
                    for key in keys:
                        enqueue(own, NewTask("m", number, key=f"k{key}", lane_key=f"l{key % 3}" if key % 5 == 0 else None))
                    own.commit()
                    told += len(keys)
                except psycopg.Error as error:
                    own.rollback()
                    if error.sqlstate not in TRANSIENT:
                        raise
                    with lock:
                        victims.append(error.sqlstate or "")
        return told

    def write_in_bulk(number: int) -> int:
        dice, told = random.Random(number), 0
        own = Database(Target(database), patience_seconds=30.0)
        while is_time():
            tasks = [NewTask("m", number, key=f"k{key}") for key in dice.sample(range(KEYS), 12)]
            try:
                told += len(own.in_transaction(lambda tx, tasks=tasks: enqueue_many(tx.connection, tasks)))  # type: ignore[misc]
            except DatabaseUnreachableError as error:  # a victim again and again, for as long as it was patient
                with lock:
                    victims.append(str(error))
        own.close()
        return told

    def work(number: int) -> int:
        dice, own = random.Random(number), Database(Target(database), patience_seconds=30.0)
        fire, done = open_fire(own, f"lane{number}", lease=3600.0), 0
        worker = register(own, fire)
        while is_time():
            claimed = claim(own, worker, dice.randint(1, 5), max_attempts=1000)
            if claimed.is_fenced:
                worker = register(own, fire)
            elif not claimed.ids:
                time.sleep(0.005)
            elif dice.random() < 0.1:
                release(own, worker)
                worker = register(own, fire)
            elif dice.random() < 0.3:
                words = [
                    ended(task, "retry", spent + 1, delay=0.0) for lo, hi, spent in claimed.spans for task in range(lo, hi + 1)
                ]
                assert settle(own, claimed.token, ended=words)
                own.run("move_lines", ids=claimed.ids)
            elif settle_plain(own, claimed):
                done += len(claimed.ids)
                own.run("move_lines", ids=claimed.ids)
        release(own, worker)
        own.close()
        return done

    def clean(_: int) -> int:
        own, turns = Database(Target(database), patience_seconds=30.0), 0
        while is_time():
            sweep(own, installation=str(uuid.uuid4()))
            pruned.append(prune(own, 0.5).tasks)
            turns += 1
        own.close()
        return turns

    with ThreadPoolExecutor(writers + 5) as pool:
        singly, bulk = pool.map(write_singly, range(writers * 2 // 3)), pool.map(write_in_bulk, range(writers // 3))
        workers, sweeps = pool.map(work, range(3)), pool.map(clean, range(2))
        assert sum(singly) > 0
        assert sum(bulk) > 0
        assert sum(workers) > 0
        assert sum(sweeps) > 0
    assert victims, "no deadlock was had: the test is too gentle"
    assert sum(pruned) > 0
    counts = check(connection)
    assert counts.claimed == 0
    assert counts.failed == 0
    held = "select mode, key from stoker.task_queue where key is not null and finished_at is null"
    twice = f"select mode, key, count(*) from ({held}) as unfinished group by 1, 2 having count(*) > 1"
    assert connection.execute(twice).fetchall() == []
    spent = "select count(*) from stoker.ready r join stoker.attempts a on a.id = r.lo group by r.lo, r.attempts"
    assert connection.execute(f"select count(*) from ({spent} having r.attempts > count(*)) as over").fetchall() == [(0,)]


@pytest.mark.parametrize("bulk", [False, True])
def test_under_repeatable_read_a_key_that_was_given_meanwhile_is_told_as_40001(
    database: str, connection: Connection, bulk: bool
) -> None:
    """R47: never a task of which the snapshot knows nothing; the transaction is tried again by its owner, and finds it."""

    def put(own: Connection) -> int:
        task = NewTask("m", key="k")
        return enqueue_many(own, [task])[0] if bulk else enqueue(own, task)

    with psycopg.connect(database) as own:
        own.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        own.execute("select 1")
        other = enqueue(connection, NewTask("m", key="k"))
        with pytest.raises(psycopg.errors.SerializationFailure):
            put(own)
        own.rollback()
        assert put(own) == other
        own.commit()
    assert check(connection).ready == 1


@pytest.mark.parametrize("state", ["40001", "40P01"])
def test_a_bulk_call_that_is_made_the_victim_is_made_again(database: str, connection: Connection, state: str) -> None:
    """R47: forced by the database, once; nothing is there twice."""
    connection.execute("create sequence public.turn")
    connection.execute(
        "create function public.broken() returns trigger language plpgsql as $$ begin"
        f" if nextval('public.turn') = 1 then raise exception 'forced' using errcode = '{state}'; end if; return null; end $$"
    )
    connection.execute("create trigger broken after insert on stoker.ready for each statement execute function public.broken()")
    own = Database(Target(database), patience_seconds=5.0)
    tasks = [NewTask("m", n, key=f"k{n}") for n in range(5)]
    assert own.in_transaction(lambda tx: enqueue_many(tx.connection, tasks)).duplicates == ()
    own.close()
    assert check(connection).ready == 5
