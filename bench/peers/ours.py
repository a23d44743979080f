"""Stoker's side: the backlog loaded in bulk or one by one, drained by a real fire."""

import psycopg

from bench import proc
from bench.backlog import load
from bench.peers.sampler import steady_rate, watch
from bench.server import BenchError, Site, finish
from stoker.sql.enqueue import Door, NewTask, enqueue

BULK = "stoker, in bulk"
SINGLY = "stoker, singly"
TASKS = {BULK: 400_000, SINGLY: 100_000}
_COMMIT_EVERY = 10_000
_KEEP = (
    "create schema kept",
    "create table kept.tasks as select * from stoker.tasks order by id",
    "create table kept.ready as select * from stoker.ready order by span",
)
_PUT_BACK = (
    "insert into stoker.tasks select * from kept.tasks order by id",
    "insert into stoker.ready overriding system value select * from kept.ready order by span",
)
_DONE = "select coalesce(sum(hi - lo + 1), 0) from stoker.outcomes"
_AT_WORK = "select (owner->>'pid')::int from stoker.workers where exited_at is null and first_task_at is not null"
_TOOK_PART = "select count(distinct worker) from stoker.outcomes"


def drain(site: Site, kind: str, workers: int) -> float:
    """Load as ``kind`` says, drain by ``workers`` worker processes; steady tasks a second."""
    tasks = TASKS[kind]
    _load(site, kind)
    with psycopg.connect(site.url, autocommit=True) as connection:
        fire = site.fire("noop", workers)
        samples = watch(connection, _DONE, tasks, int, lambda: fire.poll() is None)
        finish(fire)
        ((took_part,),) = connection.execute(_TOOK_PART).fetchall()
    if took_part != workers:
        raise BenchError(f"{took_part} of {workers} workers took part; give it more tasks")
    return steady_rate(samples, tasks)


def memory(site: Site) -> float:
    """MB (PSS) of one worker, keeper and runner, while it drains; the highest of some looks."""
    _load(site, BULK)
    fire = site.fire("noop", 1)
    highest = 0
    with psycopg.connect(site.url, autocommit=True) as connection:
        while fire.poll() is None:
            for (keeper,) in connection.execute(_AT_WORK).fetchall():
                seen = [proc.memory(pid) for pid in (keeper, *proc.children(keeper))]
                highest = max(highest, sum(one.proportional for one in seen if one))
    finish(fire)
    return highest / 1e6


def enqueue_singly(site: Site) -> None:
    """One call a task, once, with a commit for every 10,000; its rows are kept aside for every later load."""
    load(site, "noop", 0)
    with psycopg.connect(site.url, autocommit=True) as connection:
        for start in range(0, TASKS[SINGLY], _COMMIT_EVERY):
            with connection.transaction():
                for number in range(start, start + _COMMIT_EVERY):
                    enqueue(connection, NewTask("noop", {"n": number}), Door())
        for statement in _KEEP:
            connection.execute(statement)


def _load(site: Site, kind: str) -> None:
    """An empty queue, then one call for all; or the rows that one call a task has made, in the same order."""
    load(site, "noop", TASKS[BULK] if kind == BULK else 0)
    with psycopg.connect(site.url, autocommit=True) as connection:
        for statement in _PUT_BACK if kind == SINGLY else ():
            connection.execute(statement)
        connection.execute("analyze")
