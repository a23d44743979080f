"""How long a fire takes that has nothing to do, and how soon the first task and a whole pool of twelve are at work.

The clock is the machine's monotonic clock, read by the bench before it starts the command and by the handler in its
first line. The database is warm: it runs, and one round of everything has passed. The mode of the pool has no history, so
that each of its workers takes one task.
"""

import statistics
import time

from bench.backlog import forget_pace, load
from bench.report import arguments, machine, progress, publish, table
from bench.server import Site, finish, opened, wait_until

POOL = 12
ROUNDS = 7


def empty_fire(site: Site) -> float:
    """Seconds from the command to its end, the note on standard output."""
    started = time.monotonic()
    finish(site.fire("stamped", POOL))
    return time.monotonic() - started


def first_task(site: Site) -> float:
    """Seconds from the command to the first line of the handler, with one task waiting."""
    load(site, "stamped", 1)
    started = time.monotonic()
    finish(site.fire("stamped", POOL))
    (at,) = site.stamps()
    site.forget()
    return at - started


def pool_started(site: Site) -> float:
    """Seconds from the command to the moment when twelve workers have each started a task, which ends only then."""
    forget_pace(site)
    load(site, "held", POOL)
    started = time.monotonic()
    process = site.fire("held", POOL)
    wait_until(lambda: len(site.stamps()) >= POOL, process, f"the start of {POOL} tasks")
    site.open_gate()
    finish(process)
    last = site.stamps()[-1]
    site.forget()
    return last - started


def main() -> None:
    """Measure, in turn, and publish."""
    options = arguments("An empty fire, the first task, a pool of twelve.").parse_args()
    measures = {"empty_fire_seconds": empty_fire, "first_task_seconds": first_task, "pool_started_seconds": pool_started}
    taken: dict[str, list[float]] = {name: [] for name in measures}
    with opened() as site:
        where = machine(site.settings())
        for round_number in range(ROUNDS + 1):
            progress(f"round {round_number} of {ROUNDS}" if round_number else "warm-up")
            load(site, "stamped", 0)
            for name, measure in measures.items():
                seconds = measure(site)
                if round_number:
                    taken[name].append(seconds)
    words = (
        "empty fire, command to note",
        "command to the first task's first line",
        f"command to {POOL} workers, each with a task",
    )
    rows = [
        (text, *(f"{1000 * value:.0f}" for value in (statistics.median(times), min(times), max(times))))
        for text, times in zip(words, taken.values(), strict=True)
    ]
    figures = {name: round(statistics.median(times), 4) for name, times in taken.items()}
    head = (f"milliseconds, {ROUNDS} rounds", "median", "least", "most")
    publish("start", where, [table(head, rows)], figures, save=options.save)


if __name__ == "__main__":
    main()
