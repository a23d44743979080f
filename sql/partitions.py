"""The partitions of the tables that grow: made ahead of need, ten million ids each."""

from stoker.sql.database import Database, Transaction
from stoker.sql.query import in_schema

PARTITION_IDS = 10_000_000
_AHEAD = 2
_TABLES = ("tasks", "outcomes", "attempts", "outputs")


def add_partitions(database: Database) -> int:
    """Make sure that two partitions lie ahead of the newest id; how many tables were added."""
    ((newest, highest),) = database.run("newest_id")
    wanted = newest // PARTITION_IDS + _AHEAD
    if highest >= wanted:
        return 0
    return database.in_transaction(lambda tx: _add(tx, database.target.schema, highest + 1, wanted))


def _add(tx: Transaction, schema: str, first: int, last: int) -> int:
    added = 0
    for table in _TABLES:
        for number in range(first, last + 1):
            part = f"stoker.{table}_{number}"
            bounds = f"from ({number * PARTITION_IDS}) to ({(number + 1) * PARTITION_IDS})"
            for statement in (
                f"create table if not exists {part} (like stoker.{table} including all)",
                f"alter table stoker.{table} attach partition {part} for values {bounds}",
            ):
                tx.connection.execute(in_schema(statement, schema))
            added += 1
    return added
