"""Other work than loaded no-ops: enqueued one by one, tasks that take time, async, programs, and with everything kept.

A share is that of the ideal: as many tasks as the workers could do if nothing lay between two of them. Programs are
measured beside GNU xargs, which starts the same program as often, in turn. Rates are taken as bench.drain takes them.
"""

import statistics
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from bench.backlog import load, load_singly, steady, wal_position
from bench.report import arguments, machine, progress, publish, table
from bench.server import BenchError, Site, finish, opened

ROUNDS = 3
PROGRAM = "/bin/true"


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of work: its mode, the tasks of a drain, the workers; what one task would take at best, in seconds."""

    mode: str
    words: str
    tasks: int
    workers: int
    seconds: float | None = None
    at_a_time: int = 1
    fill: Callable[[Site, str, int], None] = load

    @property
    def ideal(self) -> float | None:
        """Tasks per second if nothing lay between them."""
        return self.workers * self.at_a_time / self.seconds if self.seconds else None


KINDS = (
    Kind("noop", "no-op, enqueued one by one", 100_000, 1, fill=load_singly),
    Kind("noop", "no-op, enqueued one by one", 150_000, 2, fill=load_singly),
    Kind("everything", "no-op with result, label and output kept", 60_000, 1),
    Kind("everything", "no-op with result, label and output kept", 80_000, 2),
    Kind("one_ms", "sleeps 1 ms", 4_000, 2, 0.001),
    Kind("ten_ms", "sleeps 10 ms", 800, 2, 0.01),
    Kind("mixed", "of a hundred: 89 no-ops, 10 of 1 ms, one of 10 ms", 20_000, 2, 0.0002),
    Kind("ten_ms_async", "async, sleeps 10 ms, 8 at a time", 32_000, 4, 0.01, 8),
)


def drained(site: Site, kind: Kind) -> tuple[float, float]:
    """Tasks per second, and WAL bytes a task from ready to done."""
    kind.fill(site, kind.mode, kind.tasks)
    wal = wal_position(site)
    finish(site.fire(kind.mode, kind.workers))
    return steady(site, kind.tasks, kind.workers).rate, (wal_position(site) - wal) / kind.tasks


def programs(site: Site, workers: int, tasks: int) -> float:
    """Programs per second of command tasks."""
    load(site, "program", tasks)
    finish(site.fire("program", workers))
    return steady(site, tasks, workers).rate


def xargs(workers: int, tasks: int) -> float:
    """Programs per second of xargs with as many processes."""
    started = time.monotonic()
    done = subprocess.run(
        ["xargs", "-P", str(workers), "-n", "1", PROGRAM],
        input="x\n" * tasks,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise BenchError(f"xargs ended with {done.returncode}: {done.stderr}")
    return tasks / (time.monotonic() - started)


def main() -> None:
    """Measure in turn, and publish."""
    options = arguments("Other kinds of work than loaded no-ops.").parse_args()
    taken: dict[Kind, list[tuple[float, float]]] = {kind: [] for kind in KINDS}
    beside: dict[int, list[tuple[float, float]]] = {1: [], 2: []}
    with opened() as site:
        where = machine(site.settings())
        for number in range(ROUNDS + 1):
            progress(f"round {number} of {ROUNDS}" if number else "warm-up")
            for kind in KINDS:
                seen = drained(site, kind)
                if number:
                    taken[kind].append(seen)
            for workers in beside:
                pair = programs(site, workers, 600 * workers), xargs(workers, 600 * workers)
                if number:
                    beside[workers].append(pair)
    tables, figures = _tell(taken, beside)
    publish("kinds", where, tables, figures, save=options.save)


def _tell(
    taken: dict[Kind, list[tuple[float, float]]], beside: dict[int, list[tuple[float, float]]]
) -> tuple[list[str], dict[str, Any]]:
    head = (f"median of {ROUNDS}", "workers", "tasks a second", "share of the ideal", "WAL bytes a task")
    body = table(head, list(_rows(taken)))
    rows, ratios = [], {}
    for workers, pairs in beside.items():
        ratios[workers] = statistics.median(ours / bare for ours, bare in pairs)
        ours, bare = (statistics.median(column) for column in zip(*pairs, strict=True))
        rows.append((f"{PROGRAM}, {workers} at a time", f"{ours:,.0f}", f"{bare:,.0f}", f"{ratios[workers]:.2f}"))
    commands = table(("programs a second", "stoker", "xargs", "ratio"), rows)
    shares = {kind: _rate(seen) / kind.ideal for kind, seen in taken.items() if kind.ideal}
    figures = {
        "async_share": round(next(share for kind, share in shares.items() if kind.at_a_time > 1), 3),
        "one_ms_share": round(next(share for kind, share in shares.items() if kind.mode == "one_ms"), 3),
        "ratio_to_xargs": round(min(ratios.values()), 3),
        "singles_per_second": round(max(_rate(seen) for kind, seen in taken.items() if kind.fill is load_singly)),
        "singles_wal_bytes": round(max(_wal(seen) for kind, seen in taken.items() if kind.fill is load_singly), 1),
        "everything_per_second": round(max(_rate(seen) for kind, seen in taken.items() if kind.mode == "everything")),
    }
    return [body, commands], figures


def _rows(taken: dict[Kind, list[tuple[float, float]]]) -> Iterator[tuple[str, ...]]:
    for kind, seen in taken.items():
        share = f"{_rate(seen) / kind.ideal:.2f}" if kind.ideal else ""
        yield kind.words, str(kind.workers), f"{_rate(seen):,.0f}", share, f"{_wal(seen):,.0f}"


def _rate(seen: list[tuple[float, float]]) -> float:
    return statistics.median(rate for rate, _ in seen)


def _wal(seen: list[tuple[float, float]]) -> float:
    return statistics.median(wal for _, wal in seen)


if __name__ == "__main__":
    main()
