"""The partitions of the tables that grow: made ahead of need, ten million ids each."""

from typing import Any

from stoker.sql.database import Database, Transaction
from stoker.sql.layout import PARTITION_IDS
from stoker.sql.query import in_schema

_AHEAD = 2
_KEYS = {"tasks": "id", "outcomes": "lo", "attempts": "id", "outputs": "id"}


def add_partitions(database: Database) -> int | None:
    """Make sure that two partitions lie ahead of the newest id; how many tables were added.

    None: some are missing, and this role is not their owner, who alone may make them.
    Ids that outran their partition lie in the default one, the net: they stay there, and get no partition of their own.
    """
    rows = database.run("newest_id")
    first, last = _missing(rows)
    if first > last:
        return 0
    if not rows[0][2]:
        return None
    return database.in_transaction(lambda tx: _add_missing(tx, database.target.schema), repeatable=True)


def may_drop(database: Database) -> bool:
    """Whether this role owns the tables."""
    return bool(database.run("newest_id")[0][2])


def _missing(rows: list[tuple[Any, ...]]) -> tuple[int, int]:
    ((newest, highest, _),) = rows
    return highest + 1, newest // PARTITION_IDS + _AHEAD


def _add_missing(tx: Transaction, schema: str) -> int:
    """Look again under the lock: another sweep may have been first."""
    tx.run("lock_migrations")
    first, last = _missing(tx.run("newest_id"))
    return sum(_add(tx, schema, table, number) for number in range(first, last + 1) for table in _KEYS)


def _add(tx: Transaction, schema: str, table: str, number: int) -> bool:
    def run(statement: str) -> Any:
        return tx.connection.execute(in_schema(statement, schema))

    net, part = f"stoker.{table}_beyond", f"stoker.{table}_{number}"
    lo, hi = number * PARTITION_IDS, (number + 1) * PARTITION_IDS
    run(f"lock table {net} in access exclusive mode")
    if run(f"select from {net} where {_KEYS[table]} >= {lo} and {_KEYS[table]} < {hi} limit 1").fetchone() is not None:
        return False
    run(f"create table {part} (like stoker.{table} including all)")
    run(f"alter table stoker.{table} attach partition {part} for values from ({lo}) to ({hi})")
    return True
