"""One connection to PostgreSQL, and the only way rooms speak to it: statements by name, typed rows, bounded retries.

Every statement is its own transaction unless it is sent with others through ``flush`` (one pipeline, one commit) or
inside ``transaction``. Nothing here needs session state: no LISTEN, no session locks, prepared statements only if wanted.
"""

import os
import re
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

import psycopg
from psycopg.pq import TransactionStatus
from psycopg.rows import class_row
from psycopg.types.numeric import Int8Dumper

from stoker.sql.query import load
from stoker.sql.target import Target

Row = TypeVar("Row")
Result = TypeVar("Result")
Parameters = dict[str, Any]

# Deadlock, serialization failure, lock and statement timeout, read-only server, shutdown, too many connections.
TRANSIENT = frozenset({"40P01", "40001", "55P03", "57014", "25006", "57P01", "57P02", "57P03", "53300"})
_LOCK_NOT_AVAILABLE = "55P03"
# What the driver says of a URL that it read otherwise than it was meant; it quotes parts of it, often of the password.
_MISREAD = re.compile(r"connection (option|info)|percent-encoded|URI|host (name )?[\"'][^\"']*@")
_NOT_A_URL = "the database's URL cannot be read: are the special characters of its password percent-encoded?"


StatementError = psycopg.Error
"""What the server refuses for good: a missing table, a missing right, a broken rule."""


class DatabaseUnreachableError(Exception):
    """No connection could be made, or it was lost for longer than the retries last."""


class LockHeldError(DatabaseUnreachableError):
    """Another session holds a lock that is needed, for longer than the retries last."""


class CommitUnknownError(DatabaseUnreachableError):
    """The connection died before the reply: what was sent may or may not have been committed. Ask before repeating."""


def connect(target: Target, application: str = "stoker", *, by_index: bool = False) -> psycopg.Connection[tuple[Any, ...]]:
    """A fresh autocommit connection; raises DatabaseUnreachableError with the server's words, never the URL."""
    try:
        connection = psycopg.connect(
            target.url,
            autocommit=True,
            prepare_threshold=2 if target.prepared_statements else None,
            connect_timeout=max(2, int(target.connect_timeout)),
            application_name=application,
            tcp_user_timeout=int(target.statement_timeout * 1000),
            keepalives_idle=30,
            options=target.options(by_index=by_index),
            client_encoding="utf8",
        )
        if not (connection.info.parameter_status("DateStyle") or "ISO").startswith("ISO"):
            connection.execute("set datestyle = 'ISO, MDY'")  # PGDATESTYLE goes before the options
    except psycopg.Error as error:
        words = _words(error)
        raise DatabaseUnreachableError(_NOT_A_URL if _MISREAD.search(words) else words) from None
    connection.adapters.register_dumper(int, Int8Dumper)
    return connection


def _words(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__


class Database:
    """A connection that is made when first used, and again when it was lost. One statement at a time, from any thread.

    ``retries`` counts how often a statement was tried again.
    """

    def __init__(
        self,
        target: Target,
        *,
        application: str = "stoker",
        patience_seconds: float = 15.0,
        by_index: bool = False,
        answer_seconds: float | None = None,
    ) -> None:
        """``by_index`` is for who only takes a few rows of large tables: no plan that reads a whole one is considered.

        ``answer_seconds``: a server that has not answered by then is taken for lost, also one that is too far gone to keep its
        own timeouts.
        """
        self.target = target
        self._answer_seconds = answer_seconds
        self._by_index = by_index
        self._application = application
        self.patience_seconds = patience_seconds
        self.retries = 0
        self._lock = threading.RLock()
        self._connection: psycopg.Connection[tuple[Any, ...]] | None = None

    def rows(self, row: type[Row], name: str, /, **parameters: Any) -> list[Row]:
        """Run a statement that may be repeated if its reply is lost; its rows as ``row`` (a dataclass)."""
        return self._patiently(lambda: self._fetch(name, parameters, row), repeatable=True)

    def run(self, name: str, /, **parameters: Any) -> list[tuple[Any, ...]]:
        """Run a statement that may be repeated if its reply is lost; its rows as tuples."""
        return self._patiently(lambda: self._fetch(name, parameters), repeatable=True)

    def run_once(self, name: str, /, **parameters: Any) -> list[tuple[Any, ...]]:
        """Run a statement that must not be repeated blindly; raises CommitUnknownError when its reply is lost."""
        return self._patiently(lambda: self._fetch(name, parameters), repeatable=False)

    def flush(self, *statements: tuple[str, Parameters]) -> list[list[tuple[Any, ...]]]:
        """Send statements once, as one transaction, in a pipeline if that is allowed.

        Raises CommitUnknownError when the reply is lost.
        """
        return self._patiently(lambda: self._flush(statements), repeatable=False)

    def in_transaction(self, work: Callable[["Transaction"], Result], *, repeatable: bool = False) -> Result:
        """Run ``work`` in one transaction; it is run again from its start after a transient error."""
        return self._patiently(lambda: self._transact(work), repeatable=repeatable)

    @contextmanager
    def raw(self) -> Iterator[psycopg.Connection[tuple[Any, ...]]]:
        """The connection itself, for COPY; errors come out as they are."""
        with self._lock:
            yield self._connected()

    def wait(self) -> None:
        """Connect, within the patience; raises DatabaseUnreachableError."""
        self._patiently(self._connected, repeatable=True)

    def close(self) -> None:
        """Close the connection; the next use makes a new one."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _connected(self) -> psycopg.Connection[tuple[Any, ...]]:
        if self._connection is None or self._connection.closed:
            self._connection = connect(self.target, self._application, by_index=self._by_index)
        return self._connection

    def _fetch(self, name: str, parameters: Parameters, row: type[Any] | None = None) -> Any:
        connection = self._connected()
        with connection.cursor(row_factory=class_row(row)) if row else connection.cursor() as cursor:
            cursor.execute(load(name, self.target.schema), parameters or None)
            return cursor.fetchall() if cursor.description else []

    def _flush(self, statements: Sequence[tuple[str, Parameters]]) -> list[list[tuple[Any, ...]]]:
        connection = self._connected()
        with connection.pipeline() if self.target.pipeline else connection.transaction():
            cursors = [
                connection.execute(load(name, self.target.schema), parameters or None) for name, parameters in statements
            ]
        return [cursor.fetchall() if cursor.description else [] for cursor in cursors]

    def _transact(self, work: Callable[["Transaction"], Result]) -> Result:
        connection = self._connected()
        with connection.transaction():
            return work(Transaction(connection, self.target.schema))

    def _patiently(self, attempt: Callable[[], Result], *, repeatable: bool) -> Result:
        with self._lock:
            try:
                return self._attempt(attempt, repeatable=repeatable)
            except _RetryError:
                self.retries += 1
                return self._retry(attempt, repeatable=repeatable)

    def _retry(self, attempt: Callable[[], Result], *, repeatable: bool) -> Result:
        import tenacity

        retrying = tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(_RetryError),
            wait=tenacity.wait_random_exponential(multiplier=0.05, max=2),
            stop=tenacity.stop_after_delay(self.patience_seconds),
            before_sleep=self._count,
        )
        try:
            result: Result = retrying(self._attempt, attempt, repeatable=repeatable)
            return result
        except tenacity.RetryError as error:
            last = error.last_attempt.exception() or error
            is_held = getattr(last.__cause__, "sqlstate", None) == _LOCK_NOT_AVAILABLE
            raise (LockHeldError if is_held else DatabaseUnreachableError)(_words(last)) from None

    def _count(self, _: object) -> None:
        self.retries += 1

    def _attempt(self, attempt: Callable[[], Result], *, repeatable: bool) -> Result:
        try:
            with self._bounded():
                return attempt()
        except DatabaseUnreachableError as error:
            raise _RetryError(str(error)) from error
        except psycopg.Error as error:
            lost = self._forget_broken()
            if error.sqlstate in TRANSIENT or (lost and repeatable):
                raise _RetryError(_words(error)) from error
            if lost:
                raise CommitUnknownError(_words(error)) from error
            raise

    @contextmanager
    def _bounded(self) -> Iterator[None]:
        """End the connection when its answer does not come: whoever waits for it learns that it is lost."""
        if self._answer_seconds is None:
            yield
            return
        timer = threading.Timer(self._answer_seconds, self._cut)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def _cut(self) -> None:
        connection = self._connection
        if connection is not None and not connection.closed:
            with suppress(OSError, psycopg.Error), socket.socket(fileno=os.dup(connection.fileno())) as own:
                own.shutdown(socket.SHUT_RDWR)

    def _forget_broken(self) -> bool:
        connection = self._connection
        if connection is None:
            return False
        if connection.closed or connection.info.transaction_status == TransactionStatus.UNKNOWN:
            connection.close()
            self._connection = None
            return True
        return False


class Transaction:
    """Statements by name inside one open transaction."""

    def __init__(self, connection: psycopg.Connection[tuple[Any, ...]], schema: str) -> None:
        self.connection = connection
        self._schema = schema

    def rows(self, row: type[Row], name: str, /, **parameters: Any) -> list[Row]:
        """The rows of a statement as ``row`` (a dataclass)."""
        with self.connection.cursor(row_factory=class_row(row)) as cursor:
            return cursor.execute(load(name, self._schema), parameters or None).fetchall()

    def run(self, name: str, /, **parameters: Any) -> list[tuple[Any, ...]]:
        """The rows of a statement as tuples."""
        cursor = self.connection.execute(load(name, self._schema), parameters or None)
        return cursor.fetchall() if cursor.description else []


class _RetryError(Exception):
    """An attempt failed in a way that another may not."""
