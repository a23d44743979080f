"""A clock that a bench sets. The server's sessions find ``virtual.now()`` before ``pg_catalog.now()``."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import psycopg

from stoker.sql.database import Database
from stoker.sql.target import Target

_SCHEMA = """
    create schema virtual;
    create function virtual.now() returns timestamptz stable language sql
        return pg_catalog.current_setting('virtual.now')::timestamptz;
    create function virtual.clock_timestamp() returns timestamptz stable language sql
        return pg_catalog.current_setting('virtual.now')::timestamptz;
"""
_DEFAULTS = """
    select format('alter table %s alter column %I set default virtual.now()', d.adrelid::regclass, a.attname)
    from pg_attrdef d join pg_attribute a on a.attrelid = d.adrelid and a.attnum = d.adnum
    join pg_class c on c.oid = d.adrelid join pg_namespace n on n.oid = c.relnamespace
    where n.nspname = 'stoker' and pg_get_expr(d.adbin, d.adrelid) in ('now()', 'clock_timestamp()')
"""


@dataclass(slots=True)
class Clock:
    """What time it is."""

    now: datetime

    def seconds(self) -> float:
        """As a number, as time.time gives it."""
        return self.now.timestamp()


def install(url: str, born: datetime) -> None:
    """Give a migrated database a clock that can be set; it was installed when it was born."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(_SCHEMA.encode())
        for (statement,) in connection.execute(_DEFAULTS.encode()).fetchall():
            connection.execute(statement.encode())
        connection.execute("update stoker.installation set created_at = %s", (born,))


@dataclass(frozen=True, slots=True)
class VirtualTarget(Target):
    """The same, but for the schema that is searched first."""

    def options(self, *, by_index: bool = False) -> str:
        """As they are, with the other clock before the server's."""
        return Target.options(self, by_index=by_index).replace("search_path=pg_catalog", "search_path=virtual,pg_catalog")


class VirtualDatabase(Database):
    """A connection whose session is told the time whenever it was set."""

    def __init__(self, url: str, clock: Clock, patience_seconds: float = 0.02) -> None:
        super().__init__(VirtualTarget(url), application="virtual", patience_seconds=patience_seconds)
        self._clock = clock
        self._told: tuple[Any, datetime | None] = (None, None)

    def _connected(self) -> psycopg.Connection[tuple[Any, ...]]:
        connection = super()._connected()
        if self._told != (connection, self._clock.now):
            connection.execute("select set_config('virtual.now', %s, false)", (self._clock.now.isoformat(),))
            self._told = (connection, self._clock.now)
        return connection


def seconds(number: float) -> timedelta:
    """A duration."""
    return timedelta(seconds=number)
