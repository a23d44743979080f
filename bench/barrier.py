"""How long a fire takes to end when its work is done: from the last settlement to the note, by the database's clock.

Ten thousand no-op tasks; in between, the workers look once more, leave and are waited for, and the fire is closed.
"""

import statistics

from bench.backlog import load
from bench.report import arguments, machine, progress, publish, table
from bench.server import BenchError, Site, finish, opened

POOLS = (1, 4)
ROUNDS = 7
TASKS = 10_000
_WAIT = """
    select extract(epoch from f.closed_at - o.last)::float8, o.done
    from (select fire, max(finished_at) as last, sum(hi - lo + 1) as done from stoker.outcomes group by fire) as o
    join stoker.fires f using (fire) join stoker.notes using (fire)
"""


def barrier(site: Site, workers: int, tasks: int) -> float:
    """Seconds from the last settlement to the note."""
    load(site, "noop", tasks)
    finish(site.fire("noop", workers))
    ((seconds, done),) = site.query(_WAIT)
    if done != tasks:
        raise BenchError(f"{done} of {tasks} tasks were done")
    return float(seconds)


def main() -> None:
    """Measure in turn, and publish."""
    parser = arguments("From the last settlement to the note.")
    parser.add_argument("--tasks", type=int, default=TASKS, help=f"tasks of a fire; default {TASKS:,}")
    options = parser.parse_args()
    taken: dict[int, list[float]] = {workers: [] for workers in POOLS}
    with opened() as site:
        where = machine(site.settings())
        for number in range(ROUNDS + 1):
            progress(f"round {number} of {ROUNDS}" if number else "warm-up")
            for workers, times in taken.items():
                seconds = barrier(site, workers, options.tasks)
                if number:
                    times.append(seconds)
    rows = [
        (f"{workers} worker(s)", *(f"{1000 * value:.0f}" for value in (statistics.median(times), min(times), max(times))))
        for workers, times in taken.items()
    ]
    head = (f"last settlement to note, milliseconds, {options.tasks:,} tasks, {ROUNDS} rounds", "median", "least", "most")
    figures = {f"barrier_seconds_{workers}": round(statistics.median(times), 4) for workers, times in taken.items()}
    publish("barrier", where, [table(head, rows)], figures, save=options.save)


if __name__ == "__main__":
    main()
