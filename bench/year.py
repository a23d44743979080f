"""A year of virtual time: what the watchdog finds of the misses that are planted in it, how soon, and what it tells in vain.

Seven schedules in five zones, with deploys, edits, pauses, closed gates, slow fires and losses of the database, by the code and
the statements that are shipped; the server is a real one, which is really stopped. Only its sessions' clock is set.
"""

import random
import statistics
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from bench.report import arguments, machine, progress, publish, table
from bench.server import SETTINGS, opened
from bench.virtual import almanac as written
from bench.virtual.almanac import Almanac, Miss, changes_of_clocks, draw
from bench.virtual.clock import Clock, install
from bench.virtual.world import Told, World
from stoker.sql import embedded

START = datetime(2027, 1, 1, tzinfo=UTC)
PLANTED, DAYS, SEED = 200, 365.0, 8
DURABLE = embedded.Options(settings=SETTINGS)
Act = Callable[[], object]
_AFTERWARDS = timedelta(seconds=150)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was found, and what was told in vain.

    ``delays``: of each miss that was found, seconds from when it was to be told. ``losses_told``: of the database, beside the
    misses; ``unresolved``: causes that were told, and never that they are over.
    """

    delays: dict[Miss, float]
    lost: list[Miss]
    false_pages: list[Told]
    losses: int
    losses_told: int
    unresolved: list[str]


def judge(world: World) -> Verdict:
    """Hold what was told against what was to be told."""
    almanac, pages = world.almanac, [told for told in world.told if told.action == "trigger"]
    delays: dict[Miss, float] = {}
    explained: set[Told] = set()
    for miss in almanac.misses:
        base = world.overdue.get(miss, miss.base)
        fit = [told for told in pages if miss.start < told.at < miss.end + _AFTERWARDS and _explains(miss, told, almanac)]
        explained.update(fit)
        found = [told for told in fit if told.cause == miss.cause and base <= told.at <= miss.end]
        if found:
            delays[miss] = (found[0].at - base).total_seconds()
    outages = [one for one in almanac.breaks if one.kind == written.OUTAGE]
    told_losses = 0
    for one in outages:
        found = [told for told in pages if told.cause == "database" and one.start < told.at <= one.end]
        explained.update(found)
        told_losses += bool(found)
    lasting: Counter[str] = Counter()
    for told in world.told:
        lasting[told.cause] = told.action == "trigger"
    return Verdict(
        delays,
        [miss for miss in almanac.misses if miss not in delays],
        [told for told in pages if told not in explained],
        len(outages),
        told_losses,
        sorted(cause for cause, is_open in lasting.items() if is_open),
    )


def _explains(miss: Miss, told: Told, almanac: Almanac) -> bool:
    """What belongs to it: its own cause; while all is dead or dark, each schedule of which a due time went by in vain."""
    if told.cause == miss.cause:
        return True
    if miss.kind not in (written.HOST, written.DARK):
        return False
    for name in almanac.edits:
        if told.cause == f"slot {name}":
            grace = timedelta(seconds=almanac.at(name, miss.start).grace_seconds)
            return any(miss.start <= due < miss.end and due + grace <= told.at for due in almanac.dues(name))
    return False


def live(url: str, folder: Path, almanac: Almanac, seed: int, stop: Act, start: Act) -> World:
    """Install the clock in a migrated database, and let it all happen; how the server is stopped and started is given."""
    install(url, almanac.start - timedelta(days=1))
    world = World(url, folder, almanac, Clock(almanac.start), stop, start, random.Random(seed))
    world.run()
    return world


def main() -> None:
    """Live through it, and publish."""
    parser = arguments("A virtual year under the watchdog.")
    parser.add_argument("--days", type=float, default=DAYS, help=f"how many days; default {DAYS:g}")
    parser.add_argument("--planted", type=int, default=PLANTED, help=f"how many misses; default {PLANTED}")
    parser.add_argument("--seed", type=int, default=SEED, help=f"what the dice are cast by; default {SEED}")
    options = parser.parse_args()
    almanac = draw(START, options.days, options.planted, options.seed)
    began = time.monotonic()
    with opened() as site:
        where = machine(site.settings())
        progress(f"{options.days:g} days, {options.planted} misses, seed {options.seed}")
        home = site.folder / ".stoker"
        world = live(
            site.url, site.folder, almanac, options.seed, lambda: embedded.stop(home), lambda: embedded.ensure(home, DURABLE)
        )
    verdict = judge(world)
    delays: dict[str, list[float]] = {}
    for miss, delay in verdict.delays.items():
        delays.setdefault(miss.kind, []).append(delay)
    planted = Counter(miss.kind for miss in almanac.misses)
    rows = [(kind, planted[kind], len(of), *_spread(of)) for kind, of in sorted(delays.items())]
    every = [delay for of in delays.values() for delay in of]
    rows.append(("all", len(almanac.misses), len(every), *_spread(every)))
    happened = Counter(one.kind for one in almanac.breaks)
    facts = [
        ("fires", world.fires),
        ("looks of the watchdog", world.looks),
        ("changes of clocks", changes_of_clocks(almanac)),
        *((f"breaks: {kind}", number) for kind, number in sorted(happened.items())),
        ("long losses of the database told", f"{verdict.losses_told} of {verdict.losses}"),
        ("false pages", len(verdict.false_pages)),
        ("told and never resolved", len(verdict.unresolved)),
        ("seconds it took", round(time.monotonic() - began)),
    ]
    for lost in verdict.lost:
        progress(f"not found: {lost}")
    for told in verdict.false_pages:
        progress(f"told in vain: {told}")
    head = ("delay in seconds from due and grace to the page", "planted", "found", "p50", "p99", "most")
    figures = {"bench": "year", "planted": len(almanac.misses), "found": len(every), "false_pages": len(verdict.false_pages)}
    p50, p99, most = (float(value) for value in _spread(every))
    spread = {"delay_p50_seconds": p50, "delay_p99_seconds": p99, "delay_max_seconds": most}
    publish(
        "year", where, [table(head, rows), table(("what happened", "times"), facts)], {**figures, **spread}, save=options.save
    )


def _spread(values: list[float]) -> tuple[str, str, str]:
    ordered = sorted(values) or [float("nan")]
    return tuple(f"{v:.1f}" for v in (statistics.median(ordered), ordered[int(0.99 * (len(ordered) - 1) + 0.5)], ordered[-1]))  # type: ignore[return-value]


if __name__ == "__main__":
    main()
