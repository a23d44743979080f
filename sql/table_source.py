"""Rows of somebody's queue table as tasks: which table, which rows, and which column is what.

The statement is made here and is in no file, for its names are the table's; each is quoted. ``where`` is the operator's own.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from decimal import Decimal
from typing import Any

import psycopg
from psycopg import sql

from stoker.sql.database import DatabaseUnreachableError, connect
from stoker.sql.enclosed import leaving
from stoker.sql.new_task import EnqueueError, NewTask
from stoker.sql.payload import PayloadError, decode
from stoker.sql.query import quote_identifier
from stoker.sql.section import Section
from stoker.sql.settings import Count, Text, Texts
from stoker.sql.target import Target

FOR_EVER_SECONDS = 10 * 366 * 86_400.0
"""How long a row's key is kept after its task: as long as a key can be."""
_AT_A_TIME = 1000
_MOST_DIGITS = 18
_EITHER = (
    ("mode", "mode_column"),
    ("payload_column", "payload_columns"),
    ("url", "url_file"),
    ("priority", "priority_column"),
    ("max_attempts", "max_attempts_column"),
    ("tags", "tags_column"),
)


class TableMapping(Section):
    """What a mapping file says. A key that ends in ``_column`` names a column; without the ending it is for all rows.

    ``name`` is what the rows' keys begin with instead of the table's name: under another name the same rows are others.
    """

    name: Text = ""
    url: Text = ""
    url_file: Text = ""
    schema: Text = "public"
    table: Text = ""
    where: Text = ""
    id: Text = ""
    mode: Text = ""
    mode_column: Text = ""
    payload_column: Text = ""
    payload_columns: Texts = ()
    payload_is_text: bool = False
    priority: int = 0
    priority_column: Text = ""
    available_at_column: Text = ""
    timezone: Text = ""
    max_attempts: Count = 0
    max_attempts_column: Text = ""
    tags: Texts = ()
    tags_column: Text = ""

    def check(self) -> None:
        """What cannot be left out, and what cannot be said twice."""
        for name in ("table", "id"):
            if not getattr(self, name):
                raise ValueError(f"needs {name}")
        for one, other in _EITHER:
            if getattr(self, one) and getattr(self, other):
                raise ValueError(f"give {one} or {other}, not both")
        for one, other in _EITHER[:2]:
            if not (getattr(self, one) or getattr(self, other)):
                raise ValueError(f"needs {one} or {other}")
        if wrong := leaving(self.where):
            raise ValueError(f"where: {wrong}")
        if self.payload_is_text and not self.payload_column:
            raise ValueError("payload_is_text needs payload_column: it says that the column holds JSON as text")

    def key(self, row_id: str) -> str:
        """The key of a row's task, by which a second run finds it."""
        return f"import:{self.name or f'{_plainly(self.schema)}.{_plainly(self.table)}'}:{row_id}"


def _plainly(name: str) -> str:
    """As it is, unless it could be taken for another: "a.b" of "c" and "b.c" in "a" are two tables."""
    return quote_identifier(name) if any(mark in name for mark in '.:"') else name


class ImportRefusedError(EnqueueError):
    """A row that is no task. The text names the row by its id."""


class TableSource:
    """An open look at a table, as it was at one instant."""

    def __init__(self, connection: psycopg.Connection[Any], mapping: TableMapping, versions: Mapping[str, int]) -> None:
        self._connection = connection
        self._mapping = mapping
        self._versions = versions

    def count(self) -> int:
        """How many rows there are."""
        text = sql.SQL("select count(*) from {}{}").format(_table(self._mapping), _where(self._mapping))
        with _readable(self._mapping):
            row = self._connection.execute(text, binary=True).fetchone()  # in the extended protocol, of one statement
        return int(row[0]) if row else 0

    def tasks(self, limit: int | None = None) -> Iterator[tuple[str, NewTask]]:
        """Each row's id with its task, in the order of the ids. Raises ImportRefusedError."""
        with _readable(self._mapping), self._connection.cursor(name="stoker_import") as cursor:
            cursor.itersize = _AT_A_TIME
            cursor.execute(_statement(self._mapping, limit))
            previous = None
            for row in cursor:
                if row[0] is None:
                    raise ImportRefusedError(
                        f"a row of {_name(self._mapping)} has no {self._mapping.id}, by which it is known again"
                    )
                if row[0] == previous:
                    raise refused(self._mapping, row[0], f"another row has the same {self._mapping.id}; id must be unique")
                previous = row[0]
                yield row[0], self._task(*row)

    def _task(
        self, row_id: str, mode: str, payload: str | None, priority: str | None, at: str | None, most: str | None, tags: Any
    ) -> NewTask:
        mapping = self._mapping
        try:
            value = None if payload is None else decode(payload)
        except PayloadError as error:
            raise refused(mapping, row_id, str(error)) from None
        if tags is not None and not isinstance(tags, str | list):
            raise refused(mapping, row_id, f"{mapping.tags_column} is neither text nor an array of texts")
        return NewTask(
            mode,
            value,
            priority=_whole(mapping, row_id, mapping.priority_column, priority) or 0,
            version=self._versions.get(mode, 1),
            max_attempts=_whole(mapping, row_id, mapping.max_attempts_column, most),
            available_at=_instant(mapping, row_id, at),
            tags=(tags,) if isinstance(tags, str) else tuple(tags or ()),
            key=mapping.key(row_id),
            key_seconds=FOR_EVER_SECONDS,
        )


def _name(mapping: TableMapping) -> str:
    return f"{mapping.schema}.{mapping.table}"


def refused(mapping: TableMapping, row_id: str, reason: str) -> ImportRefusedError:
    """The refusal of one row."""
    return ImportRefusedError(f"row {row_id[:100]!r} of {_name(mapping)}: {reason}")


def _whole(mapping: TableMapping, row_id: str, column: str, text: str | None) -> int | None:
    """The whole number that a column holds, as a number of any kind or as text."""
    try:
        number = None if text is None else Decimal(text)
        if number is None:
            return None
        if number.adjusted() <= _MOST_DIGITS and number == number.to_integral_value():
            return int(number)
    except (ArithmeticError, ValueError):
        pass
    raise refused(mapping, row_id, f"{column} is no whole number")


def _instant(mapping: TableMapping, row_id: str, text: str | None) -> datetime | None:
    """The time that a column holds, as the server writes it in UTC; beyond what Python knows it is another's to mend."""
    try:
        return None if text is None else datetime.fromisoformat(text)
    except ValueError:
        raise refused(mapping, row_id, f"{mapping.available_at_column} is no time of the years 2 to 9998") from None


@contextmanager
def open_table(url: str, mapping: TableMapping, versions: Mapping[str, int]) -> Iterator[TableSource]:
    """Look at the table in one read-only transaction. Raises DatabaseUnreachableError, and EnqueueError for a wrong mapping."""
    with connect(Target(url, session_options=False), "stoker import") as connection, connection.transaction():
        connection.execute("set transaction isolation level repeatable read, read only")
        connection.execute("set local standard_conforming_strings = on; set local timezone = 'UTC'")
        yield TableSource(connection, mapping, versions)


@contextmanager
def _readable(mapping: TableMapping) -> Iterator[None]:
    try:
        yield
    except psycopg.OperationalError as error:
        raise DatabaseUnreachableError(" ".join(str(error).split())) from None
    except psycopg.Error as error:
        words = (error.diag.message_primary or type(error).__name__) if error.sqlstate else str(error).splitlines()[0]
        raise EnqueueError(f"{mapping.schema}.{mapping.table} cannot be read as the mapping says: {words}") from None


def _statement(mapping: TableMapping, limit: int | None) -> sql.Composed:
    """Its columns in the order of TableSource._task."""
    columns = [
        sql.SQL("{}::text").format(sql.Identifier(mapping.id)),
        _column(mapping.mode_column, mapping.mode, "text"),
        _payload(mapping),
        _column(mapping.priority_column, mapping.priority, "text"),
        _available_at(mapping),
        _column(mapping.max_attempts_column, mapping.max_attempts or None, "text"),
        sql.Identifier(mapping.tags_column) if mapping.tags_column else sql.Literal(list(mapping.tags)),
    ]
    parts = {"columns": sql.SQL(", ").join(columns), "table": _table(mapping), "where": _where(mapping)}
    order = sql.SQL(" order by {}").format(sql.Identifier(mapping.schema, mapping.table, mapping.id))
    some = sql.SQL(" limit {}").format(sql.Literal(limit)) if limit is not None else sql.SQL("")
    return sql.SQL("select {columns} from {table}{where}").format(**parts) + order + some


def _table(mapping: TableMapping) -> sql.Identifier:
    return sql.Identifier(mapping.schema, mapping.table)


def _where(mapping: TableMapping) -> sql.Composable:
    # The text is the operator's, as it would be in psql: one condition, which the mapping has been asked about.
    return sql.SQL(f" where ({mapping.where}\n)") if mapping.where else sql.SQL("")


def _column(name: str, value: Any, kind: str) -> sql.Composable:
    return sql.SQL(f"{{}}::{kind}").format(sql.Identifier(name) if name else sql.Literal(value))


def _payload(mapping: TableMapping) -> sql.Composable:
    """As JSON text, made by the server, which knows how to write each of its types."""
    if mapping.payload_column:
        made = "{}::text" if mapping.payload_is_text else "to_json({})::text"
        return sql.SQL(made).format(sql.Identifier(mapping.payload_column))
    pairs = [part for name in mapping.payload_columns for part in (sql.Literal(name), sql.Identifier(name))]
    return sql.SQL("json_build_object({})::text").format(sql.SQL(", ").join(pairs))


def _available_at(mapping: TableMapping) -> sql.Composable:
    if not mapping.available_at_column:
        return sql.SQL("null::text")
    column = sql.Identifier(mapping.available_at_column)
    made = sql.SQL("({} at time zone {})").format(column, sql.Literal(mapping.timezone)) if mapping.timezone else column
    return sql.SQL("{}::text").format(made)
