"""What grows with the queue, with a pinned xmin horizon, and with the history: claims, a fire, and the view for people.

The claims are a worker's own visits (bench/visitor.py): the settlement of one batch and the claim of the next in one
pipeline, without a runner. Two queues are visited in turn, one visit here, one there, so that what else the machine does
falls on both. Waiting for the disk is left out (synchronous_commit is off), because it is the same for any size and hides
the rest. Besides the time that passed, the backend's own processor time is told, which others hardly disturb.

The queues are made by the server (generate_series) in one transaction that empties the tables first, then vacuumed and
analysed, so that autovacuum has no reason to begin on the long one. Drained tasks are replaced before the next round, so
that a queue keeps its length.
"""

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from bench.report import arguments, machine, progress, publish, table
from bench.server import Site, finish, opened
from bench.visitor import MODE, Visit, Visitor, fill
from stoker.sql.query import load

SMALL, LARGE, SINGLES = 10_000, 10_000_000, 1_000_000
ROUNDS = 60
WARM = 20
# By tasks a claim: how many are drained, and how often.
DRAINS = {100: (100_000, 8), 10: (50_000, 3)}
FIRES = 7
FINISHED = 1_000_000
_EMPTY = b"truncate stoker.tasks, stoker.ready, stoker.outcomes, stoker.claims, stoker.workers"
_FIRST_ID = b"select setval('stoker.task_ids', 999)"
# A span of 1,000 ids a claim; of singles a hundred a claim.
_SHAPES = {"spans of 1,000": (1000, 1000, 8, LARGE), "spans of one": (1, 100, 40, SINGLES)}
_HISTORY = f"""
    insert into stoker.tasks (id, mode, payload) select i, '{MODE}', '{{}}' from generate_series(1, {FINISHED}) i;
    insert into stoker.outcomes (lo, hi, fire, worker, token, attempt, seconds, result)
    select i, i, 1 + i / 600, gen_random_uuid(), gen_random_uuid(), 1, 0.1, '1' from generate_series(1, {FINISHED}) i;
    insert into stoker.workers (worker, fire, mode, ordinal, owner, lease_until, started_at, exited_at, exit_reason, done)
    select gen_random_uuid(), 1 + i / 24, '{MODE}', i, '{{}}', t, t, t, 'cap', 25
    from generate_series(1, {FINISHED} / 25) i, lateral (select now() - i * interval '1 minute' as t) as at;
    insert into stoker.fires (key, lane, state, day, opened_at, closed_at, interlocks, owner)
    select gen_random_uuid(), 'main', 'closed', t::date, t, t, '{{}}', '{{}}'
    from generate_series(1, {FINISHED} / 600) i, lateral (select now() - i * interval '1 hour' as t) as at;
    insert into stoker.notes (fire, verdict, facts) select fire, 'done', '{{"ended": "done"}}' from stoker.fires;
    select setval('stoker.task_ids', {FINISHED});
"""
Query = tuple[str, dict[str, object]]
_PAGE: dict[str, object] = {"mode": None, "state": None, "fire": None, "label": None, "kind": None, "limit": 50}
_VIEWS: dict[str, Query] = {
    "task_queue, a page of 50, newest first": ("list_tasks", _PAGE),
    "task_queue, a page of one mode": ("list_tasks", {**_PAGE, "mode": MODE}),
    "task_queue, one id": ("find_task", {"id": 5_000_000}),
    "counts by mode (queue_counts)": ("queue_counts", {}),
    "counts with ages (backlog)": ("backlog", {}),
}


def database(site: Site, name: str) -> str:
    """A migrated database of its own beside the site's; where it is."""
    parts = conninfo_to_dict(site.url)
    with psycopg.connect(make_conninfo(site.url, dbname="postgres"), autocommit=True) as connection:
        connection.execute(f'create database "{name}" template "{parts["dbname"]}"'.encode())
        connection.execute(f'alter database "{name}" set synchronous_commit = off'.encode())
    return make_conninfo(site.url, dbname=name)


def drop(site: Site, name: str) -> None:
    """Remove it."""
    with psycopg.connect(make_conninfo(site.url, dbname="postgres"), autocommit=True) as connection:
        connection.execute(f'drop database "{name}" with (force)'.encode())


def stock(url: str, count: int, span: int) -> None:
    """Replace whatever is queued by ``count`` tasks in spans of ``span``, vacuumed and with fresh statistics."""
    with psycopg.connect(url, autocommit=True) as connection:
        with connection.transaction():
            connection.execute(_EMPTY)
            connection.execute(_FIRST_ID)
            fill(connection, count, span)
        connection.execute("vacuum analyze")
        connection.execute("checkpoint")


def backlog(site: Site, shape: str, rounds: int) -> tuple[list[Visit], list[Visit]]:
    """Visits of a short and of a long queue, in turn."""
    span, batch, visits, long = _SHAPES[shape]
    urls = [database(site, "short"), database(site, "long")]
    taken: tuple[list[Visit], list[Visit]] = ([], [])
    for url, count in zip(urls, (SMALL, long), strict=True):
        progress(f"{shape}: loading {count:,} tasks")
        stock(url, count, span)
    visitors = [Visitor(url, batch) for url in urls]
    for number in range(rounds + 1):
        for _ in range(visits):
            for visitor, visited in zip(visitors, taken, strict=True):
                one = visitor.visit()
                if number:
                    visited.append(one)
        for url in urls:
            with psycopg.connect(url, autocommit=True) as connection:
                fill(connection, batch * visits, span)
    for visitor in visitors:
        visitor.close()
    drop(site, "short")
    if span == 1:
        drop(site, "long")
    return taken


def drains(url: str, batch: int) -> dict[bool, tuple[list[Visit], list[Visit]]]:
    """The visits of the first and of the last tenth of drains of singles, not pinned and pinned in turn."""
    count, times = DRAINS[batch]
    tenths: dict[bool, tuple[list[Visit], list[Visit]]] = {False: ([], []), True: ([], [])}
    for number in range(times):
        progress(f"drain {number + 1} of {times} by {batch}, not pinned and pinned")
        for pinned, (first, last) in tenths.items():
            visits = drained(url, count, batch, pinned=pinned)
            first.extend(visits[WARM : WARM + len(visits) // 10])
            last.extend(visits[-(len(visits) // 10) :])
    return tenths


def drained(url: str, count: int, batch: int, *, pinned: bool) -> list[Visit]:
    """Every visit of a queue of singles to its end, while another session holds an old snapshot, or none does."""
    stock(url, count, 1)
    with holding(url, pinned=pinned):
        visitor, visits = Visitor(url, batch), []
        while (one := visitor.visit()).tasks:
            visits.append(one)
        visitor.close()
    return visits


@contextmanager
def holding(url: str, *, pinned: bool) -> Iterator[None]:
    """Hold a snapshot, as a long report or a forgotten session does."""
    with psycopg.connect(url) as connection:
        if pinned:
            connection.execute("set transaction isolation level repeatable read")
            connection.execute("select 1 from stoker.tasks limit 1")
        yield


def views(url: str) -> dict[str, float]:
    """Seconds of what people ask for, median of five, on ten million queued tasks."""
    found: dict[str, float] = {}
    with psycopg.connect(url, autocommit=True) as connection:
        for words, (name, parameters) in _VIEWS.items():
            times = []
            for _ in range(5):
                started = time.monotonic()
                connection.execute(load(name, "stoker"), parameters or None).fetchall()
                times.append(time.monotonic() - started)
            found[words] = statistics.median(times)
    return found


@dataclass(frozen=True, slots=True)
class Fire:
    """An empty fire: seconds from the command to its note, and the blocks that its server touched for it."""

    seconds: float
    blocks: int


def fires(site: Site) -> tuple[list[Fire], list[Fire]]:
    """Empty fires without and with a history, in turn."""
    names = ("young", "old")
    urls = [database(site, name) for name in names]
    progress(f"a history of {FINISHED:,} tasks")
    with psycopg.connect(urls[1], autocommit=True) as connection:
        connection.execute(_HISTORY.encode())
        connection.execute("vacuum analyze")
    taken: tuple[list[Fire], list[Fire]] = ([], [])
    for number in range(FIRES + 1):
        for name, url, seen in zip(names, urls, taken, strict=True):
            one = fire(site, name, url)
            if number:
                seen.append(one)
    for name in names:
        drop(site, name)
    return taken


def fire(site: Site, name: str, url: str) -> Fire:
    """One empty fire."""
    before, started = _blocks(site, name), time.monotonic()
    finish(site.fire(MODE, 1, STOKER_DATABASE_URL=_as_url(url)))
    seconds = time.monotonic() - started
    return Fire(seconds, _blocks(site, name) - before)


def _blocks(site: Site, name: str) -> int:
    """Blocks ever touched in a database; a session adds its own when it ends."""
    return int(site.query("select blks_hit + blks_read from pg_stat_database where datname = %(name)s", name=name)[0][0])


def _as_url(conninfo: str) -> str:
    parts = conninfo_to_dict(conninfo)
    return f"postgresql://{parts['user']}@/{parts['dbname']}?host={parts['host']}&port={parts['port']}"


def main() -> None:
    """Measure, and publish."""
    parser = arguments("What grows with the queue, a pinned xmin horizon, and the history.")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"rounds of visits; default {ROUNDS}")
    options = parser.parse_args()
    rows: list[tuple[str, ...]] = []
    figures: dict[str, float] = {}
    with opened() as site:
        where = machine(site.settings())
        for shape in reversed(_SHAPES):
            short, long = backlog(site, shape, options.rounds)
            label = f"{shape}, {SMALL:,} queued", f"{shape}, {_SHAPES[shape][3]:,} queued"
            _compare(rows, figures, f"backlog_{'spans' if shape[-1] == '0' else 'singles'}", label, (short, long))
        progress("the view on ten million tasks")
        seen = views(make_conninfo(site.url, dbname="long"))
        drop(site, "long")
        url = database(site, "pinned")
        for batch in DRAINS:
            for pinned, pair in drains(url, batch).items():
                words = f"singles, {batch} a claim, {'pinned' if pinned else 'not pinned'}"
                name = f"{'pinned' if pinned else 'unpinned'}_by_{batch}"
                _compare(rows, figures, name, (f"{words}, first tenth", f"{words}, last tenth"), pair)
        young, old = fires(site)
    figures["claim_p99_ratio_backlog"] = max(figures["backlog_spans_p99"], figures["backlog_singles_p99"])
    figures["claim_p99_ratio_pinned"] = figures["pinned_by_100_p99"]
    figures["history_fire_ratio"] = round(statistics.median(b.seconds / a.seconds for a, b in zip(young, old, strict=True)), 3)
    figures["history_fire_blocks_ratio"] = round(_blocks_of(old) / _blocks_of(young), 3)
    publish("growth", where, [_claims(rows), _views(seen), _fires(young, old)], figures, save=options.save)


def _compare(
    rows: list[tuple[str, ...]],
    figures: dict[str, float],
    name: str,
    labels: tuple[str, str],
    visits: tuple[list[Visit], list[Visit]],
) -> None:
    """Two rows of milliseconds, and the ratios of the second to the first."""
    measures: dict[str, Callable[[list[Visit]], float]] = {
        "p50": lambda some: _quantile([one.seconds for one in some], 0.5),
        "p99": lambda some: _quantile([one.seconds for one in some], 0.99),
        "cpu_p50": lambda some: _quantile([one.cpu_seconds for one in some], 0.5),
        "cpu_p99": lambda some: _quantile([one.cpu_seconds for one in some], 0.99),
    }
    values = {key: [measure(some) for some in visits] for key, measure in measures.items()}
    for place, label in enumerate(labels):
        ratio = f"{values['p99'][1] / values['p99'][0]:.2f}" if place else ""
        rows.append((label, *(f"{1000 * pair[place]:.2f}" for pair in values.values()), ratio, f"{len(visits[place]):,}"))
    figures.update({f"{name}_{key}": round(b / a, 3) for key, (a, b) in values.items()})


def _quantile(values: list[float], share: float) -> float:
    ranked = sorted(values)
    return ranked[min(len(ranked) - 1, int(share * len(ranked)))]


def _claims(rows: list[tuple[str, ...]]) -> str:
    head = ("milliseconds a visit (settle and claim)", "p50", "p99", "backend's processor p50", "p99", "ratio of p99", "visits")
    return table(head, rows)


def _views(seen: dict[str, float]) -> str:
    head = (f"{LARGE:,} tasks queued in bulk", "milliseconds")
    return table(head, [(words, f"{1000 * seconds:.1f}") for words, seconds in seen.items()])


def _fires(young: list[Fire], old: list[Fire]) -> str:
    rows = []
    for words, seen in (("no history", young), (f"{FINISHED:,} tasks finished", old)):
        times = [one.seconds for one in seen]
        milliseconds = (f"{1000 * value:.0f}" for value in (statistics.median(times), min(times), max(times)))
        rows.append((words, *milliseconds, f"{_blocks_of(seen):,.0f}"))
    return table(("empty fire, command to note, milliseconds", "median", "least", "most", "blocks touched"), rows)


def _blocks_of(seen: list[Fire]) -> float:
    return statistics.median(one.blocks for one in seen)


if __name__ == "__main__":
    main()
