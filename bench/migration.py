"""How long the migrations hold up producers and claims, with five million tasks queued.

The queue is loaded at the second migration, and what follows is applied while one session enqueues and another claims, by
statements that every version understands. A gap is the time between two answers to the same session. The migrator is
killed once half-way, too, and must leave nothing.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import psycopg
from psycopg.conninfo import make_conninfo

from bench.report import arguments, machine, progress, publish, table
from bench.server import BenchError, Site, opened
from stoker.sql.migrate import known, migrate, version

QUEUED, SPAN = 5_000_000, 1000
OLD = 2
_ENQUEUE = b"""
    with made as (insert into stoker.tasks (mode, payload) values ('m', '{}') returning id)
    insert into stoker.ready (mode, version, priority, lo, hi) select 'm', 1, 0, id, id from made
"""
_CLAIM = b"""
    with taken as (
        delete from stoker.ready where span = any(array(
            select span from stoker.ready where mode = 'm' and version = 1 and priority = 0
            order by priority, lo limit 10 for update skip locked))
        returning lo, hi)
    select count(*) from taken join stoker.tasks t on t.id = taken.lo
"""
_LOAD = """
    insert into stoker.tasks (id, mode, payload) select i, 'm', '{{"n": 1}}' from generate_series(1, {count}) i;
    insert into stoker.ready (mode, version, priority, lo, hi)
    select 'm', 1, 0, i, least(i + {span} - 1, {count}) from generate_series(1, {count}, {span}) i;
    select setval('stoker.task_ids', {count});
"""


@dataclass
class Beat:
    """One session that repeats a statement, and when it was answered."""

    url: str
    statement: bytes
    answers: list[float] = field(default_factory=list)
    errors: int = 0

    def run(self, stop: threading.Event) -> None:
        """Until told to stop."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            while not stop.is_set():
                try:
                    connection.execute(self.statement)
                except psycopg.errors.DeadlockDetected:
                    self.errors += 1
                    continue
                self.answers.append(time.monotonic())
                time.sleep(0.001)

    def gap(self, since: float) -> float:
        """The longest time between two answers, the later of which came after ``since``."""
        return max(b - a for a, b in zip(self.answers, self.answers[1:], strict=False) if b >= since)


def database(site: Site, name: str, count: int, span: int) -> str:
    """A database at the old version with ``count`` tasks queued."""
    with psycopg.connect(make_conninfo(site.url, dbname="postgres"), autocommit=True) as connection:
        connection.execute(f'create database "{name}" template template0'.encode())
    url = make_conninfo(site.url, dbname=name)
    migrate(url, last=OLD)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(_LOAD.format(count=count, span=span).encode())
        connection.execute("vacuum analyze")
        connection.execute("checkpoint")
    return url


@contextmanager
def beating(url: str) -> Iterator[tuple[Beat, Beat]]:
    """A producer and a claimer at work."""
    stop, beats = threading.Event(), (Beat(url, _ENQUEUE), Beat(url, _CLAIM))
    threads = [threading.Thread(target=beat.run, args=(stop,), daemon=True) for beat in beats]
    for thread in threads:
        thread.start()
    try:
        while any(len(beat.answers) < 100 for beat in beats):
            time.sleep(0.01)
        yield beats
    finally:
        stop.set()
        for thread in threads:
            thread.join(60)


def kill_half_way(url: str) -> None:
    """Migrate, end the migrator's session as soon as it works, and look that nothing is left."""
    failed: list[BaseException] = []

    def attempt() -> None:
        try:
            migrate(url)
        except Exception as error:  # noqa: BLE001 - whatever it says, it was killed
            failed.append(error)

    thread = threading.Thread(target=attempt)
    thread.start()
    with psycopg.connect(url, autocommit=True) as connection:
        killing = (
            "select count(pg_terminate_backend(pid)) from pg_stat_activity"
            " where application_name = 'stoker migrate' and xact_start is not null and query like '%alter table%'"
        )
        while thread.is_alive() and connection.execute(killing).fetchone() == (0,):
            time.sleep(0.001)
        thread.join()
        if failed and version(connection, "stoker") != OLD:
            raise BenchError(f"a killed migrator left version {version(connection, 'stoker')}")
    progress("killed half-way, nothing left" if failed else "it was over before it could be killed")


def measure(site: Site, name: str, count: int, span: int) -> tuple[float, float, float, int]:
    """Seconds that migrating took, the longest gap of producer and claimer, and their deadlocks."""
    progress(f"{name}: loading {count:,} tasks")
    url = database(site, name, count, span)
    kill_half_way(url)
    with psycopg.connect(url, autocommit=True) as connection:
        if version(connection, "stoker") != OLD:
            return measure(site, name + "_again", count, span)
    with beating(url) as beats:
        started = time.monotonic()
        migrate(url)
        took = time.monotonic() - started
        time.sleep(1.0)
    gaps = [beat.gap(started) for beat in beats]
    with psycopg.connect(make_conninfo(site.url, dbname="postgres"), autocommit=True) as connection:
        connection.execute(f'drop database "{name}" with (force)'.encode())
    return took, gaps[0], gaps[1], sum(beat.errors for beat in beats)


def main() -> None:
    """Measure, and publish."""
    parser = arguments("How long the migrations hold up producers and claims.")
    parser.add_argument("--queued", type=int, default=QUEUED, help=f"tasks; default {QUEUED:,}")
    options = parser.parse_args()
    rows, figures = [], {}
    with opened() as site:
        where = machine(site.settings())
        for words, span in ((f"spans of {SPAN:,}", SPAN), ("single rows", 1)):
            took, enqueue, claim, deadlocks = measure(site, f"queued_{span}", options.queued, span)
            rows.append((f"{options.queued:,} queued, {words}", *(f"{x:.2f}" for x in (took, enqueue, claim)), deadlocks))
            figures[f"gap_seconds_by_{span}"] = round(max(enqueue, claim), 3)
    figures["longest_gap_seconds"] = max(figures.values())
    head = (f"seconds, migrations {OLD + 1} to {known()[-1].number}", "all", "longest gap: enqueue", "claim", "deadlocks")
    publish("migration", where, [table(head, rows)], figures, save=options.save)


if __name__ == "__main__":
    main()
