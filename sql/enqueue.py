"""Putting tasks in: one, many, or JSON lines. All of a call commit, or none.

The functions work in the caller's connection and transaction; on an autocommit connection each call is a transaction.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, groupby, islice, pairwise, repeat
from typing import Any

import psycopg

from stoker.sql.bulk import array, columns, cut, deal, neighbours, numbers, rows
from stoker.sql.jsonl import parse_time, read_lines
from stoker.sql.keys import resolve_keys
from stoker.sql.new_task import (
    DEFAULT_PAYLOAD_LIMIT,
    DEFAULT_SPAN_LENGTH,
    Door,
    EnqueueError,
    NewTask,
    check_columns,
    check_key,
)
from stoker.sql.payload import PayloadError, encode, encode_many
from stoker.sql.query import load

__all__ = [
    "DEFAULT_PAYLOAD_LIMIT", "DEFAULT_SPAN_LENGTH", "Door", "EnqueueError", "Enqueued", "NewTask", "check_task", "enqueue",
    "enqueue_async", "enqueue_many", "parse_time", "read_lines",
]  # fmt: skip

_PART = 1000
_PARTS_AHEAD = 10


class Enqueued(list[int]):
    """The ids of a call's tasks, in the order given. ``duplicates`` are the places, from 0, whose key another task has."""

    duplicates: tuple[int, ...] = ()


def enqueue(connection: psycopg.Connection[Any], task: NewTask, door: Door | None = None) -> int:
    """Put one task in; its id, or that of the task that has its key. Raises EnqueueError, and psycopg's errors as they are."""
    door = door or Door()
    row = connection.execute(load("enqueue_one", door.schema), _parameters(task, door)).fetchone()
    return _id(row)


async def enqueue_async(connection: psycopg.AsyncConnection[Any], task: NewTask, door: Door | None = None) -> int:
    """The same in an asynchronous connection."""
    door = door or Door()
    cursor = await connection.execute(load("enqueue_one", door.schema), _parameters(task, door))
    return _id(await cursor.fetchone())


def _parameters(task: NewTask, door: Door) -> dict[str, Any]:
    text = check_task(task, door)
    return {
        "mode": task.mode,
        "version": task.version,
        "priority": task.priority,
        "max_attempts": task.max_attempts,
        "payload": text,
        "available_at": task.available_at,
        "expires_at": task.expires_at,
        "tags": list(task.tags) or None,
        "lane_key": task.lane_key,
        "needs_approval": task.needs_approval,
        "key": task.key,
        "key_seconds": task.key_seconds,
        "retry_terminal": task.retry_terminal,
    }


def _id(row: tuple[Any, ...] | None) -> int:
    if row is None:
        raise AssertionError("insert returned no id")
    return int(row[0])


def enqueue_many(
    connection: psycopg.Connection[Any],
    tasks: Iterable[NewTask],
    door: Door | None = None,
    tell: Callable[[int], object] | None = None,
) -> Enqueued:
    """Put tasks in by COPY, all or nothing; their ids in the order given. Raises EnqueueError naming the first broken one.

    1. Take all of ``tasks``: nothing is asked of the database while the caller makes them.
    2. Check everything but the payloads, and the first ten thousand payloads.
    3. Check the rest while the server is busy with those before; one that is broken rolls everything back.

    ``tell`` is called with how many rows have been sent since it was called last.
    """
    door, given = door or Door(), list(tasks)
    if not given:
        return Enqueued()
    try:
        return _load(connection, given, door, tell)
    except (PayloadError, EnqueueError) as error:
        for number, task in enumerate(given, start=1):
            _check_numbered(number, task, door)
        raise EnqueueError(str(error)) from None


def _load(
    connection: psycopg.Connection[Any], given: list[NewTask], door: Door, tell: Callable[[int], object] | None
) -> Enqueued:
    runs = _runs(given, door)
    order = sorted(runs, key=lambda run: run.order)
    parts = _encoded((given[place] for run in order for place in run.places), door)
    keyed = any(task.key is not None for task in given)
    checked = [] if keyed else list(islice(parts, _PARTS_AHEAD))
    # Before the block: on a connection that is no autocommit one this begins the caller's transaction, which is his to end.
    ((lo, hi, ids_taken),) = connection.execute(load("take_ids", door.schema), {"count": len(given)}).fetchall()
    with connection.transaction():
        for run, ranges in zip(order, deal(neighbours(lo, hi, ids_taken), (len(run.places) for run in order)), strict=True):
            run.ranges = ranges
        found = _drop_duplicates(connection, given, runs, door) if keyed else {}
        ids = chain.from_iterable(numbers(run.ranges) for run in order)
        plain = not keyed and all(run.is_plain for run in order)
        heads = chain.from_iterable(run.heads(given, plain=plain, keyed=keyed) for run in order)
        with connection.cursor() as cursor, cursor.copy(load("copy_plain" if plain else "copy_tasks", door.schema)) as copy:
            for texts in chain(checked, parts):
                copy.write(rows(texts, ids, heads))
                if tell:
                    tell(len(texts))
        _insert_spans(connection, list(_spans((run for run in order if not run.stands_apart), door.span_length)), door)
        _place(connection, [run for run in order if run.stands_apart], door)
    if not found:
        return Enqueued(task_id for run in runs for task_id in numbers(run.ranges))
    of = found | {place: task_id for run in runs for place, task_id in zip(run.places, numbers(run.ranges), strict=True)}
    enqueued = Enqueued(of[place] for place in range(len(given)))
    enqueued.duplicates = tuple(sorted(found))
    return enqueued


def _drop_duplicates(
    connection: psycopg.Connection[Any], given: list[NewTask], runs: list["_Run"], door: Door
) -> dict[int, int]:
    """Take out of ``runs`` the tasks whose key another has; its id, by place."""
    ids = {place: task_id for run in runs for place, task_id in zip(run.places, numbers(run.ranges), strict=True)}
    found = resolve_keys(connection, given, ids, door.schema)
    for run in runs:
        kept = [place for place in run.places if place not in found]
        if len(kept) < len(run.places):
            run.places, run.ranges = kept, neighbours(0, 0, [ids[place] for place in kept])
    return found


def _place(connection: psycopg.Connection[Any], runs: list["_Run"], door: Door) -> None:
    """Give the tasks their places that stand in a line or wait for approval, one by one, line by line."""
    if not runs:
        return
    members = [(task_id, run.task) for run in runs for task_id in numbers(run.ranges)]
    members.sort(key=lambda member: (member[1].mode, member[1].lane_key or "", member[0]))
    parameters = {
        "ids": [task_id for task_id, _ in members],
        "times": [task.available_at for _, task in members],
        "ends": [task.expires_at for _, task in members],
        "asking": [task.needs_approval for _, task in members],
    }
    connection.execute(load("place_tasks", door.schema), parameters)


def _encoded(tasks: Iterator[NewTask], door: Door) -> Iterator[list[str]]:
    """The payloads as text, part by part, so that never all of it is in memory; raises PayloadError."""
    while part := list(islice(tasks, _PART)):
        texts = encode_many([task.payload for task in part], door.payload_limit)
        if door.models:
            for task, text in zip(part, texts, strict=True):
                _fit(task, text, door)
        yield texts


def _fit(task: NewTask, text: str, door: Door) -> None:
    if task.mode in door.models:
        from stoker.sql.models import fit, withheld

        fit(door.models[task.mode], text, door.hiding.get(task.mode, withheld))


@dataclass(slots=True)
class _Run:
    """Neighbours in the order given that differ in their payloads and keys only: where they stood, the first, their ids."""

    task: NewTask
    places: Sequence[int]
    ranges: list[tuple[int, int]] = field(default_factory=list)

    @property
    def kind(self) -> tuple[str, int, int, float, float]:
        """What the tasks of one span have in common."""
        task = self.task
        at = task.available_at.timestamp() if task.available_at else float("-inf")
        until = task.expires_at.timestamp() if task.expires_at else float("inf")
        return task.mode, task.version, task.priority, at, until

    @property
    def order(self) -> tuple[Any, ...]:
        """Where they come among the ids: those of one kind together, those in a line as they were given."""
        return (1,) if self.stands_apart else (0, *self.kind)

    @property
    def stands_apart(self) -> bool:
        """Whether its tasks are in no span, for they stand in a line or wait for approval."""
        return self.task.lane_key is not None or self.task.needs_approval

    @property
    def is_plain(self) -> bool:
        """Whether the columns that few tasks have are empty."""
        return not (self.task.tags or self.task.expires_at) and not self.stands_apart

    def heads(self, given: list[NewTask], *, plain: bool, keyed: bool) -> Iterator[str]:
        """For each its columns for COPY, between id and payload: ``plain``, what all have; they differ by the key alone."""
        task = self.task
        head = columns(task.mode, task.version, task.priority, task.max_attempts)
        if plain:
            return repeat(head, len(self.places))
        until = task.expires_at.isoformat() if task.expires_at else None
        tags = array(task.tags) if task.tags else None
        head += columns(tags, until, "t" if task.needs_approval else None, task.lane_key)[1:]
        if keyed:
            return (head + columns(given[place].key)[1:] for place in self.places)
        return repeat(head + columns(None)[1:], len(self.places))


def _runs(given: list[NewTask], door: Door) -> list[_Run]:
    """The tasks as runs, everything but their payloads checked; raises EnqueueError.

    Alike are two whose columns are the very same objects: True equals 1, but is not let in as one.
    """
    starts: list[int] = []
    last = None
    for place, task in enumerate(given):
        if (
            last is None
            or task.mode != last.mode
            or task.priority is not last.priority
            or task.version is not last.version
            or task.max_attempts is not last.max_attempts
            or task.available_at is not last.available_at
            or task.expires_at is not last.expires_at
            or task.tags is not last.tags
            or task.lane_key is not last.lane_key
            or task.needs_approval is not last.needs_approval
        ):
            check_columns(task, door)
            starts.append(place)
            last = task
        if task.key is not None or task.retry_terminal is not False:
            check_key(task)
    return [_Run(given[start], range(start, end)) for start, end in pairwise([*starts, len(given)])]


def _check_numbered(number: int, task: NewTask, door: Door) -> None:
    try:
        check_task(task, door)
    except EnqueueError as error:
        raise EnqueueError(str(error), task.line or number) from None


def check_task(task: NewTask, door: Door) -> str:
    """The payload's text; raises EnqueueError for whatever the database would refuse or a worker could not run."""
    check_columns(task, door)
    check_key(task)
    try:
        text = encode(task.payload, door.payload_limit)
        _fit(task, text, door)
        return text
    except PayloadError as error:
        raise EnqueueError(str(error)) from None


def _spans(runs: Iterable[_Run], length: int) -> Iterator[tuple[NewTask, int, int]]:
    """Neighbouring ids of one kind, at most ``length`` of them, none across a partition's border."""
    for _, alike in groupby(runs, lambda run: run.kind):
        of_kind = list(alike)
        for lo, hi in cut((ids for run in of_kind for ids in run.ranges), length):
            yield of_kind[0].task, lo, hi


def _insert_spans(connection: psycopg.Connection[Any], spans: list[tuple[NewTask, int, int]], door: Door) -> None:
    if not spans:
        return
    connection.execute(
        load("enqueue_spans", door.schema),
        {
            "modes": [task.mode for task, _, _ in spans],
            "versions": [task.version for task, _, _ in spans],
            "priorities": [task.priority for task, _, _ in spans],
            "los": [lo for _, lo, _ in spans],
            "his": [hi for _, _, hi in spans],
            "times": [task.available_at for task, _, _ in spans],
            "ends": [task.expires_at for task, _, _ in spans],
        },
    )
