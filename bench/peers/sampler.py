"""One yardstick for every system: how many tasks are done, asked of the database while they are drained.

The rate is that of the middle of the backlog, from 10 to 90 % done, between samples in a straight line: process starts and
the end, when workers run dry one after the other, are outside it. Asking takes at most a fiftieth of the time.
"""

import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import psycopg

from bench.server import BenchError

FROM, TO = 0.1, 0.9
_LIMIT_SECONDS = 120.0
_EVERY_SECONDS = 0.02
_REST = 49

Sample = tuple[float, int]
"""Monotonic seconds, and how many tasks are done by then."""


def watch(
    connection: psycopg.Connection[Any], statement: str, tasks: int, done: Callable[[int], int], alive: Callable[[], bool]
) -> list[Sample]:
    """Samples until all ``tasks`` are done; ``done`` makes of the statement's number how many those are."""
    samples: list[Sample] = []
    deadline = time.monotonic() + _LIMIT_SECONDS
    while not samples or samples[-1][1] < tasks:
        living, asked = alive(), time.monotonic()
        ((number,),) = connection.execute(statement.encode()).fetchall()
        answered = time.monotonic()
        samples.append(((asked + answered) / 2, done(int(number))))
        if samples[-1][1] < tasks and (not living or answered > deadline):
            raise BenchError(f"{samples[-1][1]} of {tasks} tasks were done")
        time.sleep(max(_EVERY_SECONDS, _REST * (answered - asked)))
    return samples


def steady_rate(samples: Sequence[Sample], tasks: int) -> float:
    """Tasks a second between 10 and 90 % of ``tasks``. Raises BenchError when the samples do not tell."""
    first, last = (_reached(samples, part * tasks) for part in (FROM, TO))
    if last <= first:
        raise BenchError("the drain was over between two samples; give it more tasks")
    return (TO - FROM) * tasks / (last - first)


def _reached(samples: Sequence[Sample], number: float) -> float:
    """When so many were done."""
    for (earlier, fewer), (later, more) in pairwise(samples):
        if fewer < number <= more:
            return earlier + (later - earlier) * (number - fewer) / (more - fewer)
    raise BenchError("the drain was over before it was seen; give it more tasks")
