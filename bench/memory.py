"""What one worker, keeper and runner together, holds in memory, while it drains no-op tasks and while it is in a task.

PSS of /proc/PID/smaps_rollup: a page shared by n processes counts 1/n for each, so other Python processes on the machine
lower it a little; ``private`` is what the worker alone holds. MB are 1,000,000 bytes. The figure in the JSON line is the
highest of a single worker's samples.
"""

import statistics
import subprocess
import time
from dataclasses import dataclass

import psycopg

from bench import proc
from bench.backlog import forget_pace, load
from bench.report import arguments, machine, progress, publish, table
from bench.server import BenchError, Site, finish, opened, wait_until

POOLS = (1, 4)
_EVERY_SECONDS = 0.03
_IDLE_SAMPLES = 20
_KEEPERS = """
    select (owner->>'pid')::int from stoker.workers where exited_at is null and first_task_at is not null
"""
Pair = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Sample:
    """One look at a pool, in MB a worker."""

    keeper: float
    runner: float
    private: float

    @property
    def worker(self) -> float:
        """Keeper and runner together."""
        return self.keeper + self.runner


def draining(site: Site, workers: int, tasks: int) -> list[Sample]:
    """Samples while all workers drain."""
    load(site, "noop", tasks)
    process = site.fire("noop", workers)
    pairs = _pairs(site, process, workers)
    samples = []
    while (sample := _look(pairs)) is not None:
        samples.append(sample)
        time.sleep(_EVERY_SECONDS)
    finish(process)
    if len(samples) < 2:
        raise BenchError("the drain was over before it could be looked at; give more --tasks")
    return samples


def in_task(site: Site, workers: int) -> list[Sample]:
    """Samples while every worker has one task that does nothing."""
    forget_pace(site)
    load(site, "held", workers)
    process = site.fire("held", workers)
    wait_until(lambda: len(site.stamps()) >= workers, process, f"the start of {workers} tasks")
    pairs = _pairs(site, process, workers)
    samples = []
    for _ in range(_IDLE_SAMPLES):
        samples += [sample] if (sample := _look(pairs)) else []
        time.sleep(_EVERY_SECONDS)
    site.open_gate()
    finish(process)
    site.forget()
    return samples


def _pairs(site: Site, process: subprocess.Popen[str], workers: int) -> list[Pair]:
    """Keeper and runner of every worker, once all are at work."""
    pairs: list[Pair] = []
    with psycopg.connect(site.url, autocommit=True) as connection:

        def all_at_work() -> bool:
            keepers = [pid for (pid,) in connection.execute(_KEEPERS.encode())]
            pairs[:] = [(keeper, runner) for keeper in keepers for runner in proc.children(keeper)]
            return len(pairs) == workers

        wait_until(all_at_work, process, f"{workers} workers at work at once")
    return pairs


def _look(pairs: list[Pair]) -> Sample | None:
    """One sample; None when a process is gone."""
    seen = [(proc.memory(keeper), proc.memory(runner)) for keeper, runner in pairs]
    keepers = [keeper for keeper, _ in seen if keeper]
    runners = [runner for _, runner in seen if runner]
    if not len(keepers) == len(runners) == len(pairs):
        return None
    unit = 1e6 * len(pairs)
    return Sample(
        sum(keeper.proportional for keeper in keepers) / unit,
        sum(runner.proportional for runner in runners) / unit,
        sum(one.private for one in keepers + runners) / unit,
    )


def main() -> None:
    """Measure and publish."""
    parser = arguments("What one worker holds in memory.")
    parser.add_argument("--tasks", type=int, default=100_000, help="no-op tasks a drain")
    options = parser.parse_args()
    rows, peaks = [], []
    with opened() as site:
        where = machine(site.settings())
        for workers in POOLS:
            progress(f"{workers} worker(s)")
            for state, samples in (
                ("draining no-op tasks", draining(site, workers, options.tasks)),
                ("in a task that waits", in_task(site, workers)),
            ):
                middle = [
                    statistics.median(one) for one in zip(*((s.keeper, s.runner, s.private) for s in samples), strict=True)
                ]
                total, peak = statistics.median(s.worker for s in samples), max(s.worker for s in samples)
                rows.append((f"{state}, {workers} worker(s)", *(f"{mb:.1f}" for mb in (total, peak, *middle)), len(samples)))
                peaks += [peak] if workers == 1 else []
    head = ("MB a worker", "PSS median", "PSS peak", "of it keeper", "of it runner", "private", "samples")
    publish("memory", where, [table(head, rows)], {"worker_pss_mb": round(max(peaks), 1)}, save=options.save)


if __name__ == "__main__":
    main()
