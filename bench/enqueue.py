"""Putting tasks in: one by one, many in one transaction, and in bulk, beside a bare COPY of the same columns, in turn.

The floor is psycopg's COPY into a table that is made like stoker's, partitions included: ``write_row`` of rows that are
ready, their payload already text. The ratio that counts is to it. Two more are told: blocks of text that are ready, which
leaves the client nothing to do, and ``write_row`` with json.dumps on the way, which is what a program does that has
values. The bulk call gets tasks that are made, and does the rest: checks, JSON, ids, spans, its transaction.
"""

import json
import statistics
import time
from collections.abc import Callable
from typing import Any

import psycopg

from bench.report import arguments, machine, progress, publish, table
from bench.server import Site, opened
from stoker.sql.enqueue import Door, NewTask, enqueue, enqueue_many

BULK = 100_000
SINGLES = 2_000
ROUNDS = 7
_DOOR = Door()
_BYTES = 100
_PART = 1000
_COPY = b"copy bench.tasks (id, mode, version, priority, max_attempts, payload) from stdin"
_EQUAL = """
    create schema bench;
    create table bench.tasks (like stoker.tasks including all) partition by range (id);
    create table bench.tasks_0 partition of bench.tasks for values from (0) to (10000000);
    create table bench.tasks_1 partition of bench.tasks default;
"""
Connection = psycopg.Connection[Any]
FLOOR = "COPY, write_row, rows ready"
BULK_CALL = "enqueue_many, tasks ready"


def payload(number: int) -> dict[str, Any]:
    """A value of several keys, 100 bytes as text."""
    value = {"n": number, "path": f"/some/folder/with/files/{number:09d}.jpg", "note": ""}
    return value | {"note": "x" * (_BYTES - len(_text(value)))}


def single(connection: Connection, count: int) -> Callable[[], object]:
    """One call, one transaction a task."""
    tasks = [NewTask("noop", payload(number)) for number in range(count)]
    return lambda: [enqueue(connection, task, _DOOR) for task in tasks]


def single_together(connection: Connection, count: int) -> Callable[[], object]:
    """One call a task, all of them in one transaction."""
    calls = single(connection, count)

    def run() -> None:
        with connection.transaction():
            calls()

    return run


def bulk(connection: Connection, count: int) -> Callable[[], object]:
    """One call for all."""
    tasks = [NewTask("noop", payload(number)) for number in range(count)]
    return lambda: enqueue_many(connection, tasks, _DOOR)


def bulk_made(connection: Connection, count: int) -> Callable[[], object]:
    """One call for all, which also makes the tasks of payloads that are ready."""
    values = [payload(number) for number in range(count)]
    return lambda: enqueue_many(connection, (NewTask("noop", value) for value in values), _DOOR)


def copy_rows(connection: Connection, count: int) -> Callable[[], object]:
    """The floor."""
    rows = [(number, "noop", 1, 0, None, _text(payload(number))) for number in range(1, count + 1)]

    def run() -> None:
        with connection.cursor() as cursor, cursor.copy(_COPY) as copy:
            for row in rows:
                copy.write_row(row)

    return run


def copy_values(connection: Connection, count: int) -> Callable[[], object]:
    """As the floor, but the payload is made text on the way."""
    values = [payload(number) for number in range(1, count + 1)]

    def run() -> None:
        with connection.cursor() as cursor, cursor.copy(_COPY) as copy:
            for number, value in enumerate(values, start=1):
                copy.write_row((number, "noop", 1, 0, None, json.dumps(value)))

    return run


def copy_blocks(connection: Connection, count: int) -> Callable[[], object]:
    """Blocks of a thousand rows of text that are ready."""
    rows = [f"{number}\tnoop\t1\t0\t\\N\t{_text(payload(number))}\n" for number in range(1, count + 1)]
    blocks = ["".join(rows[at : at + _PART]).encode() for at in range(0, count, _PART)]

    def run() -> None:
        with connection.cursor() as cursor, cursor.copy(_COPY) as copy:
            for block in blocks:
                copy.write(block)

    return run


WAYS: dict[str, tuple[Callable[[Connection, int], Callable[[], object]], bool]] = {
    "enqueue, a transaction each": (single, False),
    "enqueue, one transaction": (single_together, False),
    BULK_CALL: (bulk, True),
    FLOOR: (copy_rows, True),
    "enqueue_many, tasks made on the way": (bulk_made, True),
    "COPY, write_row, json.dumps on the way": (copy_values, True),
    "COPY, blocks of text ready": (copy_blocks, True),
}
"""By name: what makes the timed part, and whether it is a load in bulk."""


def measure(site: Site, name: str, count: int) -> float:
    """Tasks per second, from empty tables and a checkpoint; what is made beforehand is not counted."""
    with psycopg.connect(site.url, autocommit=True, prepare_threshold=2) as connection:
        connection.execute("truncate stoker.ready, stoker.tasks, bench.tasks")
        connection.execute("checkpoint")
        timed = WAYS[name][0](connection, count)
        started = time.monotonic()
        timed()
        return count / (time.monotonic() - started)


def main() -> None:
    """Measure in turn, and publish."""
    parser = arguments("Putting tasks in, beside a bare COPY.")
    parser.add_argument("--tasks", type=int, default=BULK, help=f"tasks of a load in bulk; default {BULK:,}")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"rounds; default {ROUNDS}")
    options = parser.parse_args()
    taken: dict[str, list[float]] = {name: [] for name in WAYS}
    with opened() as site:
        where = machine(site.settings())
        site.query(_EQUAL)
        for number in range(options.rounds + 1):
            progress(f"round {number} of {options.rounds}" if number else "warm-up")
            for name, (_, is_bulk) in WAYS.items():
                rate = measure(site, name, options.tasks if is_bulk else SINGLES)
                if number:
                    taken[name].append(rate)
    publish("enqueue", where, [_table(taken, options.tasks)], _figures(taken), save=options.save)


def _table(taken: dict[str, list[float]], tasks: int) -> str:
    rows = []
    for name, rates in taken.items():
        ratio = f"{_ratio(taken, name, FLOOR):.2f}" if WAYS[name][1] else ""
        rows.append((name, f"{statistics.median(rates):,.0f}", f"{min(rates):,.0f}", f"{max(rates):,.0f}", ratio))
    rounds = len(taken[FLOOR])
    head = (f"tasks a second, payloads of {_BYTES} bytes, {tasks:,} in bulk, {rounds} rounds", "median", "least", "most")
    return table((*head, "to the floor"), rows)


def _figures(taken: dict[str, list[float]]) -> dict[str, float]:
    return {
        "bulk_per_second": round(statistics.median(taken[BULK_CALL])),
        "ratio_to_copy": round(_ratio(taken, BULK_CALL, FLOOR), 3),
        "ratio_to_copy_of_values": round(_ratio(taken, BULK_CALL, "COPY, write_row, json.dumps on the way"), 3),
        "single_per_second": round(statistics.median(taken["enqueue, a transaction each"])),
        "single_together_per_second": round(statistics.median(taken["enqueue, one transaction"])),
    }


def _ratio(taken: dict[str, list[float]], name: str, floor: str) -> float:
    """The median of the ratios of the same round."""
    return statistics.median(a / b for a, b in zip(taken[name], taken[floor], strict=True))


def _text(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


if __name__ == "__main__":
    main()
