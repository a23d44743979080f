"""What is over is kept for a while, then taken out: whole partitions where nothing in them is needed, rows elsewhere.

A call does a bounded piece, the oldest first, and notes how far it got; when it is through it rests for a hundredth of the
time that things are kept. What it cannot have now, because somebody holds a lock or a statement took too long, it leaves
for the next call: it waits for a shorter time than the server lets pass before it looks for deadlocks.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import psycopg

from stoker.sql.database import Database, Transaction
from stoker.sql.layout import PARTITION_IDS
from stoker.sql.partitions import may_drop
from stoker.sql.query import in_schema, quote_identifier

_ROWS = 1000
_ROUNDS = 5
_PARTITIONS = 10
_MOST_DELETED = 50_000
_PARTS = 100
_LIMITS = "set local lock_timeout = '200ms'; set local statement_timeout = '20s'"
_BY_INDEX = "set local enable_seqscan = off"


@dataclass(slots=True)
class Pruned:
    """What one call took out."""

    tasks: int = 0
    partitions: int = 0
    fires: int = 0
    events: int = 0
    is_interrupted: bool = False


def prune(database: Database, keep_seconds: float) -> Pruned:
    """Take out a bounded part of what ended more than ``keep_seconds`` ago."""
    pruned = Pruned()
    due = dict(database.run("due_marks", pause=keep_seconds / _PARTS))
    duties = {"partitions": _prune_partitions, "tasks": _prune_tasks, "rest": _prune_rest}
    for name, duty in duties.items():
        if name not in due or (name == "partitions" and not may_drop(database)):
            continue
        try:
            duty(database, keep_seconds, due[name], pruned)
        except (psycopg.OperationalError, psycopg.errors.ReadOnlySqlTransaction):  # a lock, a timeout: what is over can wait
            pruned.is_interrupted = True
    return pruned


@contextmanager
def _transaction(database: Database, limits: str = f"{_LIMITS}; {_BY_INDEX}") -> Iterator[Transaction]:
    with database.raw() as connection, connection.transaction():
        connection.execute(limits.encode(), prepare=False)
        yield Transaction(connection, database.target.schema)


def _move_mark(database: Database, name: str, to: int, pause: float = 0.0) -> None:
    with _transaction(database) as tx:
        tx.run("move_mark", name=name, id=to, pause=pause)


def _prune_tasks(database: Database, keep: float, _: int, pruned: Pruned) -> None:
    for _round in range(_ROUNDS):
        with _transaction(database) as tx:
            mark = tx.run("lock_mark", name="tasks", pause=keep / _PARTS)
            if not mark:  # another sweep is at it
                return
            ((count, has_more),) = tx.run("prune_tasks", mark=mark[0][0], keep=keep, pause=keep / _PARTS, limit=_ROWS)
        pruned.tasks += count
        if not has_more:
            return


def _prune_rest(database: Database, keep: float, _: int, pruned: Pruned) -> None:
    with _transaction(database) as tx:
        ((fires, events, _hosts),) = tx.run("prune_rest", keep=keep, limit=_ROWS)
    pruned.fires, pruned.events = fires, events
    if max(fires, events) < _ROWS:
        _move_mark(database, "rest", 0, keep / _PARTS)


def _prune_partitions(database: Database, keep: float, first: int, pruned: Pruned) -> None:
    """Look at some partitions, drop the first that nothing keeps."""
    found = database.run("list_partitions", first=first, ids=PARTITION_IDS, limit=_PARTITIONS)
    for number, tables in found:
        with _transaction(database, _LIMITS) as tx:
            pruned.partitions += _drop(tx, database.target.schema, number, tables, keep)
        _move_mark(database, "partitions", number + 1)
        if pruned.partitions:
            return
    if len(found) < _PARTITIONS:
        _move_mark(database, "partitions", 0, keep / _PARTS)


def _drop(tx: Transaction, schema: str, number: int, tables: list[str], keep: float) -> bool:
    """Drop the tables of one partition, and what belongs to its tasks elsewhere, unless something keeps them.

    1. ask what can be asked cheaply; 2. forget what stands elsewhere, so that nobody opens one of them again; 3. ask
    everything; 4. lock, and ask again what may have changed.
    """
    ids = {"lo": number * PARTITION_IDS, "hi": (number + 1) * PARTITION_IDS, "keep": keep}

    def is_kept(most: int, *, thorough: bool) -> bool:
        return tx.run("find_keeper", **ids, most=most, thorough=thorough)[0][0] is not None

    if is_kept(_MOST_DELETED, thorough=False):
        return False
    with tx.connection.transaction() as forgetting:
        tx.run("forget_range", **ids)
        if is_kept(0, thorough=True):
            raise psycopg.Rollback(forgetting)
        parents = ", ".join(f"only stoker.{table}" for table in ("tasks", "outcomes", "attempts", "outputs"))
        tx.connection.execute(in_schema(f"lock table {parents} in access exclusive mode", schema))
        if is_kept(0, thorough=False):
            raise psycopg.Rollback(forgetting)
        names = ", ".join(f"{quote_identifier(schema)}.{quote_identifier(table)}" for table in tables)
        tx.connection.execute(f"drop table {names}".encode())
        return True
    return False
