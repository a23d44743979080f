"""Forward-only migrations: one transaction each, under a lock, with checksums.

A lock is waited for in short tries, since everybody else queues behind who waits; who holds it for longer makes them abort.
A try is shorter than the time after which the server looks for deadlocks: claims take the tables in another order.
"""

import hashlib
import random
import time
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import psycopg

from stoker.sql.database import DatabaseUnreachableError, connect
from stoker.sql.query import in_schema, load, quote_identifier
from stoker.sql.target import Target

_TRY_SECONDS = 0.2
_PAUSE_SECONDS = 0.3


class MigrationError(Exception):
    """A migration could not be applied; nothing of it was. The text says why and what to do."""


class SchemaVersionError(Exception):
    """The schema is older or newer than this stoker, or is not there."""


@dataclass(frozen=True, slots=True)
class Migration:
    """One file of migrations/: its number, its name, its text as written for the schema ``stoker``."""

    number: int
    name: str
    text: str

    @property
    def checksum(self) -> str:
        """SHA-256 of the text, hexadecimal."""
        return hashlib.sha256(self.text.encode()).hexdigest()


def known() -> list[Migration]:
    """Every migration this stoker has, in order."""
    folder = files("stoker.sql") / "migrations"
    names = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".sql"))
    return [Migration(int(name[:4]), name, (folder / name).read_text("utf-8")) for name in names]


def preview(applied: int, schema: str) -> str:
    """A script for psql that does what ``migrate`` would do to a schema at version ``applied`` (0: not there)."""
    missing = [migration for migration in known() if migration.number > applied]
    if not missing:
        return ""
    opening = f"create schema if not exists {quote_identifier(schema)};\n{load('create_migrations', schema)};\n"
    scripts = [_script(migration, schema) for migration in missing]
    return "\n".join(scripts if applied else [opening, *scripts])


def _script(migration: Migration, schema: str) -> str:
    entry = f"({migration.number}, '{migration.name}', '{migration.checksum}')"
    record = f"insert into stoker.migrations (number, name, checksum) values {entry};"  # noqa: S608 - nobody's input
    return in_schema(f"begin;\n{migration.text.rstrip()}\n{record}\ncommit;\n", schema)


def migrate(url: str, schema: str = "stoker", *, lock_timeout: float = 5.0, last: int | None = None) -> list[str]:
    """Apply what is missing, oldest first, up to number ``last``; the names of what was applied.

    Raises MigrationError (a lock was not to be had in ``lock_timeout`` seconds, a checksum differs, SQL failed) and
    DatabaseUnreachableError.
    """
    target = Target(url, schema, lock_timeout=lock_timeout, statement_timeout=3600, prepared_statements=False)
    with connect(target, "stoker migrate") as connection:
        try:
            _prepare(connection, schema)
            return _apply_missing(connection, schema, last, lock_timeout)
        except (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected):
            raise MigrationError(
                f"another session holds a lock on schema {schema!r} for more than {lock_timeout:g} s; nothing was"
                " changed. End the long transaction (see pg_stat_activity) and run it again."
            ) from None
        except psycopg.OperationalError as error:
            raise DatabaseUnreachableError(" ".join(str(error).split())) from None
        except psycopg.errors.InsufficientPrivilege as error:
            words = f"{error.diag.message_primary}; nothing was changed. Run it as the owner of schema {schema!r}."
            raise MigrationError(words) from None
        except psycopg.Error as error:
            raise MigrationError(f"{error.sqlstate}: {' '.join(str(error).split())}; nothing was changed.") from None


def version(connection: psycopg.Connection[Any], schema: str) -> int:
    """The number of the newest migration applied; 0 when the schema is not there."""
    try:
        row = connection.execute(load("newest_migration", schema)).fetchone()
    except (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName):
        return 0
    return int(row[0]) if row else 0


def check_version(connection: psycopg.Connection[Any], schema: str) -> None:
    """Raises SchemaVersionError unless the schema is the one this stoker was written for."""
    there, wanted = version(connection, schema), known()[-1].number
    if there == wanted:
        return
    if there == 0:
        raise SchemaVersionError(f"schema {schema!r} has no stoker in it. Run: stoker migrate")
    if there < wanted:
        raise SchemaVersionError(f"schema {schema!r} is at version {there}, this stoker needs {wanted}. Run: stoker migrate")
    raise SchemaVersionError(
        f"schema {schema!r} is at version {there}, newer than this stoker ({wanted}). Install the newer stoker."
    )


def _prepare(connection: psycopg.Connection[Any], schema: str) -> None:
    with connection.transaction():
        connection.execute("select pg_advisory_xact_lock(hashtextextended('stoker migrate ' || %s, 0))", (schema,))
        if connection.execute("select 1 from pg_namespace where nspname = %s", (schema,)).fetchone() is None:
            connection.execute(f"create schema {quote_identifier(schema)}")
        connection.execute(load("create_migrations", schema))


def _apply_missing(connection: psycopg.Connection[Any], schema: str, last: int | None, lock_timeout: float) -> list[str]:
    wanted = [migration for migration in known() if last is None or migration.number <= last]
    return [migration.name for migration in wanted if _insist(connection, schema, migration, lock_timeout)]


def _insist(connection: psycopg.Connection[Any], schema: str, migration: Migration, lock_timeout: float) -> bool:
    """Apply one in a transaction, again from its start whenever a lock was not to be had; the last refusal is raised."""
    deadline = time.monotonic() + lock_timeout
    while True:
        try:
            with connection.transaction():
                connection.execute("select set_config('lock_timeout', %s, true)", (f"{1000 * _TRY_SECONDS:.0f}ms",))
                return _apply(connection, schema, migration)
        except (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected):
            if time.monotonic() >= deadline:
                raise
        time.sleep(random.uniform(0.5, 1.0) * _PAUSE_SECONDS)  # noqa: S311 - jitter is no secret


def _apply(connection: psycopg.Connection[Any], schema: str, migration: Migration) -> bool:
    connection.execute(load("lock_migrations", schema))
    row = connection.execute(load("find_migration", schema), {"number": migration.number}).fetchone()
    if row is not None:
        if row[0] != migration.checksum:
            raise MigrationError(
                f"{migration.name} was applied to schema {schema!r} with another text (checksum differs). An applied"
                " migration must never be edited: restore its text, and write a new one."
            )
        return False
    connection.execute(in_schema(migration.text, schema))
    entry = {"number": migration.number, "name": migration.name, "checksum": migration.checksum}
    connection.execute(load("record_migration", schema), entry)
    return True
