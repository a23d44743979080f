"""From a snapshot of the queue to a plan. Pure: nothing is read, nothing is started."""

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Backlog:
    """One mode as it stands: tasks claimable now, seconds one takes (None: never measured), age of the oldest (seconds).

    ``is_broken``: its handler could not be used the last time. It is tried with one worker, after every other mode.
    ``is_paused``: a person stopped it; it gets nobody.
    """

    mode: str
    ready: int
    seconds_each: float | None = None
    oldest_seconds: float = 0.0
    weight: float = 1.0
    max_workers: int | None = None
    task_cap: int | None = 25
    is_broken: bool = False
    is_paused: bool = False


@dataclass(frozen=True, slots=True)
class Ceilings:
    """The limits a plan must keep, and how soon a backlog should be drained (seconds)."""

    max_pool: int
    drain_target: float = 60.0


@dataclass(frozen=True, slots=True)
class Share:
    """What one mode gets: workers, what it asked for, and the ceiling that bound it."""

    mode: str
    backlog: int
    workers: int
    wanted: int
    ceiling: str
    can_take: int | None
    seconds_each: float | None


@dataclass(frozen=True, slots=True)
class Plan:
    """Workers per mode. ``ceiling`` names what bound the whole: nothing, max_pool, task_cap."""

    shares: tuple[Share, ...]
    max_pool: int
    ceiling: str

    @property
    def workers(self) -> int:
        """Workers in all."""
        return sum(share.workers for share in self.shares)

    @property
    def backlog(self) -> int:
        """Tasks claimable when the plan was made."""
        return sum(share.backlog for share in self.shares)

    @property
    def can_take(self) -> int | None:
        """How many tasks these workers may take; None without a task cap."""
        takes = [share.can_take for share in self.shares if share.workers]
        return None if any(take is None for take in takes) else sum(take or 0 for take in takes)


def for_one_task(mode: str, ceilings: Ceilings) -> Plan:
    """One worker, for one task that somebody wants run now; none when the pool may hold nobody."""
    workers = min(1, max(ceilings.max_pool, 0))
    return Plan((Share(mode, 1, workers, 1, "asked for", workers, None),), ceilings.max_pool, "asked for")


def decide(backlogs: list[Backlog], ceilings: Ceilings) -> Plan:
    """Give workers to modes: one each, oldest first, then by weight, until nobody wants more or the pool is full."""
    pool = max(ceilings.max_pool, 0)
    wanted = {backlog.mode: _wanted(backlog, ceilings) for backlog in backlogs}
    given = dict.fromkeys(wanted, 0)
    by_age = sorted(backlogs, key=lambda b: (b.is_broken, -b.oldest_seconds, b.mode))
    while sum(given.values()) < pool:
        asking = [b for b in by_age if given[b.mode] < wanted[b.mode][0]]
        if not asking:
            break
        chosen = min(asking, key=lambda b: (b.is_broken, given[b.mode] > 0, given[b.mode] / b.weight))
        given[chosen.mode] += 1
    shares = tuple(_share(b, given[b.mode], *wanted[b.mode]) for b in sorted(backlogs, key=lambda b: b.mode))
    return Plan(shares, pool, _ceiling(shares))


def _wanted(backlog: Backlog, ceilings: Ceilings) -> tuple[int, str]:
    """Workers a mode asks for, and what bounds that number when the pool does not.

    A mode that was never measured may be slow: it asks for one worker a task.
    """
    if backlog.is_paused:
        return 0, "paused"
    if backlog.ready <= 0:
        return 0, "empty"
    if backlog.task_cap is not None and backlog.task_cap <= 0:
        return 0, "task_cap"
    each = ceilings.drain_target if backlog.seconds_each is None else backlog.seconds_each
    by_time = math.ceil(backlog.ready * each / ceilings.drain_target)
    by_cap = 0 if backlog.task_cap is None else math.ceil(backlog.ready / backlog.task_cap)
    need = 1 if backlog.is_broken else min(max(by_time, by_cap, 1), backlog.ready)
    if backlog.max_workers is not None and backlog.max_workers < need:
        return max(backlog.max_workers, 0), "max_workers"
    return need, "backlog"


def _share(backlog: Backlog, workers: int, wanted: int, reason: str) -> Share:
    can_take = None if backlog.task_cap is None else workers * max(backlog.task_cap, 0)
    ceiling = "max_pool" if workers < wanted else reason
    return Share(backlog.mode, backlog.ready, workers, wanted, ceiling, can_take, backlog.seconds_each)


def _ceiling(shares: tuple[Share, ...]) -> str:
    for name in ("max_pool", "task_cap", "max_workers"):
        if any(share.ceiling == name for share in shares):
            return name
    return "backlog"
