"""How soon a task that is enqueued by itself starts, when a worker of the running fire has nothing to do and lingers.

From the return of ``enqueue``, which has committed, to the handler's first line, on the machine's monotonic clock. The
worker lingers because a task of its mode is due within ``worker.linger``; the next one comes at a random moment.
"""

import random
import time
from datetime import UTC, datetime, timedelta

import psycopg

from bench.report import arguments, machine, progress, publish, table
from bench.server import Site, finish, opened, wait_until
from stoker.sql.enqueue import Door, NewTask, enqueue

SAMPLES = 100
_PAUSE_SECONDS = 0.6
_LATER = timedelta(minutes=5)


def pickups(site: Site, samples: int) -> list[float]:
    """Seconds from commit to first line, of one task after the other."""
    taken: list[float] = []
    with psycopg.connect(site.url, autocommit=True, prepare_threshold=0) as connection:
        enqueue(connection, NewTask("stamped", available_at=datetime.now(UTC) + _LATER), Door())
        enqueue(connection, NewTask("stamped"), Door())
        command = site.fire("stamped", 1, STOKER_WORKER_LINGER="10m")
        wait_until(lambda: len(site.stamps()) == 1, command, "the first task")
        for number in range(1, samples + 1):
            time.sleep(random.uniform(0.05, _PAUSE_SECONDS))
            enqueue(connection, NewTask("stamped"), Door())
            committed = time.monotonic()
            wait_until(lambda wanted=number + 1: len(site.stamps()) == wanted, command, "a task")  # type: ignore[misc]
            taken.append(site.stamps()[-1] - committed)
        connection.execute("update stoker.later set available_at = now()")
    finish(command)
    return taken


def main() -> None:
    """Measure, and publish."""
    parser = arguments("From the commit of one task to its first line, while a worker lingers.")
    parser.add_argument("--samples", type=int, default=SAMPLES, help=f"tasks; default {SAMPLES}")
    options = parser.parse_args()
    with opened() as site:
        where = machine(site.settings())
        progress(f"{options.samples} tasks, one at a time")
        ranked = sorted(pickups(site, options.samples))
    p50, p99 = (ranked[min(len(ranked) - 1, int(share * len(ranked)))] for share in (0.5, 0.99))
    rows = [
        (f"commit to first line, {len(ranked)} tasks", *(f"{1000 * value:.0f}" for value in (p50, p99, ranked[0], ranked[-1])))
    ]
    head = ("milliseconds", "p50", "p99", "least", "most")
    figures = {"pickup_p50_seconds": round(p50, 4), "pickup_p99_seconds": round(p99, 4)}
    publish("pickup", where, [table(head, rows)], figures, save=options.save)


if __name__ == "__main__":
    main()
