"""Putting tasks in: one, many, or JSON lines. All of a call commit, or none.

The functions work in the caller's connection and transaction; on an autocommit connection each call is a transaction.
"""

import difflib
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import chain, groupby, islice, pairwise, repeat
from typing import Any

import psycopg

from stoker.sql.bulk import columns, cut, deal, neighbours, numbers, rows
from stoker.sql.payload import PayloadError, decode, encode, encode_many
from stoker.sql.query import load
from stoker.sql.units import parse_duration

DEFAULT_SPAN_LENGTH = 1000
DEFAULT_PAYLOAD_LIMIT = 1024 * 1024
_PART = 1000
_PARTS_AHEAD = 10
_INTEGER = range(-(2**31), 2**31)
_UNSTORABLE = re.compile("[\\0\ud800-\udfff]")
# A day of it in another time zone would be of the year 10000, which Python cannot read back.
_LAST_YEAR = 9999
_LINE_KEYS = frozenset({"mode", "payload", "priority", "version", "max_attempts", "available_at", "delay"})


class EnqueueError(ValueError):
    """A task that cannot be accepted. Nothing of its call was enqueued; ``line`` is its number, from 1, if it had one."""

    def __init__(self, reason: str, line: int | None = None) -> None:
        self.line = line
        super().__init__(f"line {line}: {reason}" if line else reason)


@dataclass(frozen=True, slots=True)
class NewTask:
    """A task to be enqueued. ``payload`` is any JSON value; a lower priority is more urgent; ``available_at`` is aware.

    ``line`` is where it was read, for messages.
    """

    mode: str
    payload: Any = None
    priority: int = 0
    version: int = 1
    max_attempts: int | None = None
    available_at: datetime | None = None
    line: int | None = None


@dataclass(frozen=True, slots=True)
class Door:
    """What is let in: the schema, the longest payload in bytes, the known modes (None: any), and how long a span may be."""

    schema: str = "stoker"
    payload_limit: int = DEFAULT_PAYLOAD_LIMIT
    modes: frozenset[str] | None = None
    span_length: int = DEFAULT_SPAN_LENGTH


def enqueue(connection: psycopg.Connection[Any], task: NewTask, door: Door) -> int:
    """Put one task in; its id. Raises EnqueueError, and psycopg's errors as they are."""
    text = _checked(task, door)
    row = connection.execute(
        load("enqueue_one", door.schema),
        {
            "mode": task.mode,
            "version": task.version,
            "priority": task.priority,
            "max_attempts": task.max_attempts,
            "payload": text,
            "available_at": task.available_at,
        },
    ).fetchone()
    if row is None:
        raise AssertionError("insert returned no id")
    return int(row[0])


def enqueue_many(connection: psycopg.Connection[Any], tasks: Iterable[NewTask], door: Door) -> list[int]:
    """Put tasks in by COPY, all or nothing; their ids in the order given. Raises EnqueueError naming the first broken one.

    1. Take all of ``tasks``: nothing is asked of the database while the caller makes them.
    2. Check everything but the payloads, and the first ten thousand payloads.
    3. Check the rest while the server is busy with those before; one that is broken rolls everything back.
    """
    given = list(tasks)
    if not given:
        return []
    try:
        return _load(connection, given, door)
    except (PayloadError, EnqueueError) as error:
        for number, task in enumerate(given, start=1):
            _check_numbered(number, task, door)
        raise EnqueueError(str(error)) from None


def _load(connection: psycopg.Connection[Any], given: list[NewTask], door: Door) -> list[int]:
    runs = _runs(given, door)
    order = sorted(runs, key=lambda run: run.kind)
    parts = _encoded(chain.from_iterable(islice(given, run.start, run.end) for run in order), door.payload_limit)
    checked = list(islice(parts, _PARTS_AHEAD))
    with connection.transaction():
        ((lo, hi, ids_taken),) = connection.execute(load("take_ids", door.schema), {"count": len(given)}).fetchall()
        for run, ranges in zip(order, deal(neighbours(lo, hi, ids_taken), (run.end - run.start for run in order)), strict=True):
            run.ranges = ranges
        ids = chain.from_iterable(numbers(run.ranges) for run in order)
        heads = chain.from_iterable(repeat(run.head, run.end - run.start) for run in order)
        with connection.cursor() as cursor, cursor.copy(load("copy_tasks", door.schema)) as copy:
            for texts in chain(checked, parts):
                copy.write(rows(texts, ids, heads))
        _insert_spans(connection, list(_spans(order, door.span_length)), door)
    return [task_id for run in runs for task_id in numbers(run.ranges)]


def _encoded(tasks: Iterator[NewTask], payload_limit: int) -> Iterator[list[str]]:
    """The payloads as text, part by part, so that never all of it is in memory; raises PayloadError."""
    while part := [task.payload for task in islice(tasks, _PART)]:
        yield encode_many(part, payload_limit)


def read_lines(lines: Iterable[bytes | str], *, mode: str | None = None, now: datetime | None = None) -> Iterator[NewTask]:
    """Tasks from JSON lines: an object with mode and payload a line, or, when ``mode`` is given, a bare payload a line.

    Empty lines are passed over. Raises EnqueueError with the number of the first broken line.
    """
    for number, line in enumerate(lines, start=1):
        try:
            text = (line.decode() if isinstance(line, bytes) else line).strip().removeprefix("\ufeff")
        except UnicodeDecodeError:
            raise EnqueueError("not UTF-8", number) from None
        if text:
            try:
                yield replace(_from_line(text, mode, now or datetime.now(UTC)), line=number)
            except ValueError as error:
                raise EnqueueError(str(error), number) from None


def _from_line(text: str, mode: str | None, now: datetime) -> NewTask:
    value = decode(text, "the line")
    if mode is not None:
        if isinstance(value, dict) and {"mode", "payload"} <= value.keys() <= _LINE_KEYS:
            raise EnqueueError("the line names its own mode; leave out the one given for every line")
        return NewTask(mode, value)
    if not isinstance(value, dict) or "mode" not in value:
        example = '{"mode": "resize", "payload": {...}}'
        raise EnqueueError(f"expected an object such as {example}, or name the mode of all: stoker enqueue MODE --jsonl FILE")
    unknown = sorted(value.keys() - _LINE_KEYS)
    if unknown:
        raise EnqueueError(f"unknown key {json.dumps(unknown[0])}; known: {', '.join(sorted(_LINE_KEYS))}")
    return NewTask(
        mode=value["mode"],
        payload=value.get("payload"),
        priority=value.get("priority", 0),
        version=value.get("version", 1),
        max_attempts=value.get("max_attempts"),
        available_at=_time(value, now),
    )


def _time(value: dict[str, Any], now: datetime) -> datetime | None:
    if value.get("delay") is not None:
        return now + timedelta(seconds=parse_duration(value["delay"]))
    if value.get("available_at") is None:
        return None
    return parse_time(value["available_at"])


def parse_time(text: Any) -> datetime:
    """An ISO 8601 time with its offset, such as 2026-12-01T07:00:00+01:00 or ...Z; raises EnqueueError."""
    try:
        time = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        raise EnqueueError("available_at is not an ISO 8601 time, such as 2026-12-01T07:00:00+01:00") from None
    _check_time(time)
    return time


def _check_time(time: object) -> None:
    if not isinstance(time, datetime):
        raise EnqueueError("available_at is not a datetime")
    if time.utcoffset() is None:
        raise EnqueueError("available_at has no offset; write for example 2026-12-01T07:00:00+01:00 or ...Z")
    if not 1 < time.year < _LAST_YEAR:
        raise EnqueueError(f"available_at is beyond the years 2 to {_LAST_YEAR - 1}")


@dataclass(slots=True)
class _Run:
    """Neighbours in the order given that differ in their payloads only: their places, the first of them, and their ids."""

    task: NewTask
    start: int
    end: int
    ranges: list[tuple[int, int]] = field(default_factory=list)

    @property
    def kind(self) -> tuple[str, int, int, float]:
        """What the tasks of one span have in common."""
        task = self.task
        at = task.available_at.timestamp() if task.available_at else float("-inf")
        return task.mode, task.version, task.priority, at

    @property
    def head(self) -> str:
        """Their columns for COPY, between the id and the payload."""
        task = self.task
        return columns(task.mode, task.version, task.priority, task.max_attempts)


def _runs(given: list[NewTask], door: Door) -> list[_Run]:
    """The tasks as runs, everything but their payloads checked; raises EnqueueError.

    Alike are two whose numbers are the very same objects: True equals 1, but is not let in as one.
    """
    starts: list[int] = []
    mode = priority = version = max_attempts = available_at = object()
    for place, task in enumerate(given):
        if (
            task.mode != mode
            or task.priority is not priority
            or task.version is not version
            or task.max_attempts is not max_attempts
            or task.available_at is not available_at
        ):
            _check_columns(task, door)
            starts.append(place)
            mode, priority, version = task.mode, task.priority, task.version
            max_attempts, available_at = task.max_attempts, task.available_at
    return [_Run(given[start], start, end) for start, end in pairwise([*starts, len(given)])]


def _check_numbered(number: int, task: NewTask, door: Door) -> None:
    try:
        _checked(task, door)
    except EnqueueError as error:
        raise EnqueueError(str(error), task.line or number) from None


def _checked(task: NewTask, door: Door) -> str:
    """The payload's text; raises EnqueueError for whatever the database would refuse or a worker could not run."""
    _check_columns(task, door)
    try:
        return encode(task.payload, door.payload_limit)
    except PayloadError as error:
        raise EnqueueError(str(error)) from None


def _check_columns(task: NewTask, door: Door) -> None:
    """Everything but the payload."""
    if not isinstance(task.mode, str) or not 0 < len(task.mode) <= 63 or _UNSTORABLE.search(task.mode):
        raise EnqueueError("mode must be a name of 1 to 63 characters of Unicode text without NUL")
    if door.modes is not None and task.mode not in door.modes:
        near = difflib.get_close_matches(task.mode, door.modes, 1)
        meant = f"did you mean {near[0]}?" if near else f"configured: {', '.join(sorted(door.modes)) or 'none'}"
        raise EnqueueError(f"unknown mode {task.mode!r}; {meant}")
    _check_integer("priority", task.priority, _INTEGER)
    _check_integer("version", task.version, range(1, 2**31))
    if task.max_attempts is not None:
        _check_integer("max_attempts", task.max_attempts, range(1, 2**31))
    if task.available_at is not None:
        _check_time(task.available_at)


def _check_integer(name: str, value: object, allowed: range) -> None:
    if type(value) is not int or value not in allowed:
        raise EnqueueError(f"{name} must be a whole number from {allowed.start} to {allowed.stop - 1}")


def _spans(runs: Iterable[_Run], length: int) -> Iterator[tuple[NewTask, int, int]]:
    """Neighbouring ids of one kind, at most ``length`` of them, none across a partition's border."""
    for _, alike in groupby(runs, lambda run: run.kind):
        of_kind = list(alike)
        for lo, hi in cut((ids for run in of_kind for ids in run.ranges), length):
            yield of_kind[0].task, lo, hi


def _insert_spans(connection: psycopg.Connection[Any], spans: list[tuple[NewTask, int, int]], door: Door) -> None:
    connection.execute(
        load("enqueue_spans", door.schema),
        {
            "modes": [task.mode for task, _, _ in spans],
            "versions": [task.version for task, _, _ in spans],
            "priorities": [task.priority for task, _, _ in spans],
            "los": [lo for _, lo, _ in spans],
            "his": [hi for _, _, hi in spans],
            "times": [task.available_at for task, _, _ in spans],
        },
    )
