"""Tasks loaded in bulk into an empty queue, and how fast and at what cost in WAL they were drained."""

from dataclasses import dataclass
from pathlib import Path

import psycopg

from bench.server import BenchError, Site
from stoker.sql.enqueue import Door, NewTask, enqueue_many

_TABLES = ("ready", "later", "claims", "tasks", "outcomes", "attempts", "outputs", "failed", "unknown")
_STATEMENTS = Path(__file__).parent / "statements"


@dataclass(frozen=True, slots=True)
class Steady:
    """Tasks settled while all ``workers`` worked, and the seconds of that; ``tasks`` in all."""

    workers: int
    seconds: float
    settled: int
    tasks: int

    @property
    def rate(self) -> float:
        """Tasks per second."""
        return self.settled / self.seconds


def statement(name: str) -> bytes:
    """The text of statements/``name``.sql, for psycopg."""
    return (_STATEMENTS / f"{name}.sql").read_bytes()


def load(site: Site, mode: str, count: int) -> None:
    """Empty the queue and its history, write a checkpoint, then enqueue ``count`` tasks in one call.

    What earlier workers measured stays: a worker of a known quick mode begins with long batches.
    """
    fill_with(site, mode, count, Door())


def load_singly(site: Site, mode: str, count: int) -> None:
    """The same, but every task a span of its own, as when each is enqueued by a call of its own."""
    fill_with(site, mode, count, Door(span_length=1))


def fill_with(site: Site, mode: str, count: int, door: Door) -> None:
    """The same, through this door."""
    with psycopg.connect(site.url, autocommit=True) as connection:
        connection.execute(f"truncate {', '.join(f'stoker.{table}' for table in _TABLES)}".encode())
        connection.execute("checkpoint")
        enqueue_many(connection, (NewTask(mode, {"n": number}) for number in range(count)), door)


def forget_pace(site: Site) -> None:
    """Forget what earlier workers measured: a worker of an unknown mode takes one task at a time."""
    site.query("truncate stoker.workers")


def wal_position(site: Site) -> int:
    """How many bytes of WAL were ever written."""
    return int(site.query("select (pg_current_wal_lsn() - '0/0')::bigint")[0][0])


def steady(site: Site, tasks: int, workers: int) -> Steady:
    """What the drain that just ended reached. Raises BenchError unless all tasks are done and all workers took part."""
    rows = site.query(statement("steady").decode())
    seen = Steady(*rows[0]) if rows else Steady(0, 0.0, 0, 0)
    if seen.tasks != tasks:
        raise BenchError(f"{seen.tasks} of {tasks} tasks were done")
    if seen.workers < workers or seen.seconds <= 0 or seen.settled == 0:
        raise BenchError(f"{seen.workers} of {workers} workers took part before it was over; give more --tasks")
    return seen
