"""What each choice of the hot path is worth: the same drain of no-op tasks by one worker, one choice changed at a time.

In turn, against the defaults of the same round, so that what else the machine does falls on all.
"""

import statistics
from dataclasses import dataclass, field

from bench.backlog import fill_with, steady, wal_position
from bench.report import arguments, machine, progress, publish, table
from bench.server import Site, finish, opened
from stoker.sql.enqueue import Door

ROUNDS = 3
TASKS = 200_000


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """What is changed: settings of the fire, and how the tasks stand in the queue."""

    words: str
    settings: dict[str, str] = field(default_factory=dict)
    span_length: int = 1000
    tasks: int = TASKS


CHOICES = (
    Choice("the defaults: spans of 1,000, batches of 1,000, prepared statements"),
    Choice("prepared statements off", {"STOKER_DATABASE_PREPARED_STATEMENTS": "false"}),
    Choice("pipelines off", {"STOKER_DATABASE_PIPELINE": "false"}),
    Choice("both off", {"STOKER_DATABASE_PREPARED_STATEMENTS": "false", "STOKER_DATABASE_PIPELINE": "false"}),
    Choice("batches of 100", {"STOKER_WORKER_BATCH_LIMIT": "100"}),
    Choice("batches of 4,000", {"STOKER_WORKER_BATCH_LIMIT": "4000"}),
    Choice("spans of 5,000", span_length=5000),
    Choice("spans of 100", span_length=100),
    Choice("spans of 20", span_length=20),
    Choice("spans of one", span_length=1, tasks=TASKS // 2),
)


def drained(site: Site, choice: Choice) -> tuple[float, float]:
    """Tasks per second, and WAL bytes a task."""
    fill_with(site, "noop", choice.tasks, Door(span_length=choice.span_length))
    wal = wal_position(site)
    finish(site.fire("noop", 1, **choice.settings))
    return steady(site, choice.tasks, 1).rate, (wal_position(site) - wal) / choice.tasks


def main() -> None:
    """Measure in turn, and publish."""
    options = arguments("What each choice of the hot path is worth.").parse_args()
    taken: dict[Choice, list[tuple[float, float]]] = {}
    with opened() as site:
        where = machine(site.settings())
        for number in range(ROUNDS + 1):
            progress(f"round {number} of {ROUNDS}" if number else "warm-up")
            for choice in CHOICES:
                seen = drained(site, choice)
                if number:
                    taken.setdefault(choice, []).append(seen)
    usual = [rate for rate, _ in taken[CHOICES[0]]]
    rows, figures = [], {}
    for choice, seen in taken.items():
        ratio = statistics.median(rate / base for (rate, _), base in zip(seen, usual, strict=True))
        rate, wal = (statistics.median(column) for column in zip(*seen, strict=True))
        rows.append((choice.words, f"{rate:,.0f}", f"{ratio:.2f}", f"{wal:.0f}"))
        figures[choice.words.partition(":")[0]] = round(ratio, 3)
    head = (f"no-op tasks, 1 worker, median of {ROUNDS}", "tasks a second", "to the defaults", "WAL bytes a task")
    publish("tuning", where, [table(head, rows)], figures, save=options.save)


if __name__ == "__main__":
    main()
