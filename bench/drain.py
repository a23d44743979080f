"""No-op tasks, loaded in bulk: stoker's workers beside the floor, in turn, and where a task's time goes.

A rate is taken while every worker works (statements/steady.sql): from the moment when the last of them was given its
first task to the last settlement of the one that left first, so process starts are outside it. Both sides are measured
by the same statement from the same columns. A ratio is that of two neighbouring runs; the median of all is published.
WAL is everything the server wrote from before the command to after it, the fire's own rows included.
"""

import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import psycopg

from bench import proc
from bench.backlog import Steady, load, steady, wal_position
from bench.floor import APPLICATION
from bench.report import arguments, machine, progress, publish, table
from bench.server import BenchError, Site, finish, opened

POOLS = (1, 2)
ROUNDS = 5
TASKS = 400_000
_BUDGET_SECONDS = 360.0  # with the warm-up, one more round and the last look: below ten minutes
_KEEPER = "select (owner->>'pid')::int from stoker.workers where exited_at is null and first_task_at is not null"
_BACKEND = "select pid from pg_stat_activity where application_name = %s"


@dataclass(frozen=True, slots=True)
class Drain:
    """One drain: its steady part, seconds from command to end, WAL bytes."""

    steady: Steady
    whole_seconds: float
    wal_bytes: int


def stoker(site: Site, workers: int) -> list[subprocess.Popen[str]]:
    """The command that drains with a pool of ``workers``."""
    return [site.fire("noop", workers)]


def floor(site: Site, workers: int) -> list[subprocess.Popen[str]]:
    """As many processes of the floor."""
    return [site.start([sys.executable, "-m", "bench.floor", site.url]) for _ in range(workers)]


SIDES: dict[str, Callable[[Site, int], list[subprocess.Popen[str]]]] = {"noop": stoker, "floor": floor}


def drain(site: Site, mode: str, workers: int, tasks: int) -> Drain:
    """Load, drain, and look at what it took."""
    load(site, mode, tasks)
    wal, started = wal_position(site), time.monotonic()
    for process in SIDES[mode](site, workers):
        finish(process)
    whole = time.monotonic() - started
    return Drain(steady(site, tasks, workers), whole, wal_position(site) - wal)


def spend(site: Site, mode: str, tasks: int) -> dict[str, float]:
    """Microseconds of processor a task, by process, of one worker from its first task on."""
    load(site, mode, tasks)
    (process,) = SIDES[mode](site, 1)
    with psycopg.connect(site.url, autocommit=True) as connection:
        pids = _parts(connection, mode, process)
    first: dict[str, float] = {}
    last: dict[str, float] = {}
    while process.poll() is None:
        for name, pid in pids.items():
            seconds = proc.cpu_seconds(pid)
            if seconds is not None:
                first.setdefault(name, seconds)
                last[name] = seconds
        time.sleep(0.01)
    finish(process)
    return {name: (last[name] - first[name]) / tasks * 1e6 for name in first}


def _parts(connection: psycopg.Connection[tuple[object, ...]], mode: str, process: subprocess.Popen[str]) -> dict[str, int]:
    """The processes that do the work, by name, as soon as they are there."""
    application = "stoker worker" if mode == "noop" else APPLICATION
    while process.poll() is None:
        with suppress(ValueError):
            ((backend,),) = connection.execute(_BACKEND.encode(), (application,)).fetchall()
            if mode == "floor":
                return {"loop": process.pid, "backend": int(str(backend))}
            ((keeper,),) = connection.execute(_KEEPER.encode()).fetchall()
            (runner,) = proc.children(int(str(keeper)))
            return {"keeper": int(str(keeper)), "runner": runner, "backend": int(str(backend))}
        time.sleep(0.002)
    raise BenchError("it was over before it could be looked at; give more --tasks")


def main() -> None:
    """Measure in turn, and publish."""
    parser = arguments("No-op tasks beside the floor.")
    parser.add_argument("--tasks", type=int, default=TASKS, help=f"tasks a drain; default {TASKS:,}")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"rounds; default {ROUNDS}")
    options = parser.parse_args()
    taken: dict[tuple[str, int], list[Drain]] = {(mode, workers): [] for workers in POOLS for mode in SIDES}
    with opened() as site:
        where = machine(site.settings())
        progress("warm-up")
        for mode in SIDES:
            drain(site, mode, 1, options.tasks)
        over_at = time.monotonic() + _BUDGET_SECONDS
        for number in range(1, options.rounds + 1):
            if number > 1 and time.monotonic() > over_at:
                progress("no time for more rounds: the machine is too busy")
                break
            progress(f"round {number} of {options.rounds}")
            for (mode, workers), drains in taken.items():
                drains.append(drain(site, mode, workers, options.tasks))
        progress("where the time goes")
        spent = {mode: spend(site, mode, options.tasks) for mode in SIDES}
    tables, figures = _tell(taken, spent, options.tasks)
    publish("drain", where, tables, figures, save=options.save)


def _tell(
    taken: dict[tuple[str, int], list[Drain]], spent: dict[str, dict[str, float]], tasks: int
) -> tuple[list[str], dict[str, float]]:
    rows, ratios, rates = [], [], []
    for workers in POOLS:
        ours, bare = taken["noop", workers], taken["floor", workers]
        each = sorted(a.steady.rate / b.steady.rate for a, b in zip(ours, bare, strict=True))
        ratios.append(statistics.median(each))
        rates.append(_rate(ours))
        rows += [
            (f"{workers} worker(s)", f"{_rate(ours):,.0f}", f"{_rate(bare):,.0f}", f"{ratios[-1]:.2f}"),
            ("- range of the ratio", "", "", f"{each[0]:.2f} to {each[-1]:.2f}"),
            ("- whole fire, command to note", f"{tasks / statistics.median(d.whole_seconds for d in ours):,.0f}", "", ""),
            ("- WAL bytes a task", f"{_wal(ours, tasks):.1f}", f"{_wal(bare, tasks):.1f}", ""),
        ]
    head = (f"{tasks:,} no-op tasks a second, median of {len(taken['noop', 1])}", "stoker", "floor", "ratio")
    parts = [
        (f"{ {'noop': 'stoker', 'floor': 'floor'}[mode] }: {name}", f"{microseconds:.1f}")
        for mode, by_name in spent.items()
        for name, microseconds in by_name.items()
    ]
    cost = table(("processor time a task, 1 worker, one run", "microseconds"), parts)
    return [table(head, rows), cost], {"ratio_to_floor": round(min(ratios), 3), "tasks_per_second": round(max(rates))}


def _rate(drains: list[Drain]) -> float:
    return statistics.median(one.steady.rate for one in drains)


def _wal(drains: list[Drain], tasks: int) -> float:
    return statistics.median(one.wal_bytes for one in drains) / tasks


if __name__ == "__main__":
    main()
