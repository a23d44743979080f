"""What a decision is made from: the queue as it stands, by mode, and how long tasks took of late."""

from dataclasses import dataclass

from stoker.orchestrator.config import Config
from stoker.orchestrator.decide import Backlog
from stoker.sql.database import Database


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Backlogs of the configured modes, and what stands queued that none of them runs: (mode, version, count)."""

    backlogs: list[Backlog]
    unserved: list[tuple[str, int, int]]


@dataclass(frozen=True, slots=True)
class Queued:
    """One mode in one payload version, as it stands."""

    mode: str
    version: int
    ready: int
    later: int
    oldest_seconds: float


def read(database: Database, config: Config, only: frozenset[str] = frozenset()) -> Snapshot:
    """Look at the queue; ``only`` narrows the decision to some modes."""
    queued = database.rows(Queued, "backlog")
    paces = dict(database.run("recent_pace", modes=sorted(config.modes)))
    served = {(name, mode.version) for name, mode in config.modes.items()}
    standing = {one.mode: one for one in queued if (one.mode, one.version) in served}
    return Snapshot(
        [_backlog(name, config, standing.get(name), paces.get(name)) for name in config.modes if not only or name in only],
        [(q.mode, q.version, q.ready + q.later) for q in queued if (q.mode, q.version) not in served],
    )


def _backlog(name: str, config: Config, queued: Queued | None, seconds_each: float | None) -> Backlog:
    mode = config.modes[name]
    caps = [cap for cap in (mode.task_cap, config.limits.task_cap) if cap is not None]
    return Backlog(
        mode=name,
        ready=queued.ready if queued else 0,
        seconds_each=seconds_each,
        oldest_seconds=queued.oldest_seconds if queued else 0.0,
        weight=mode.weight,
        max_workers=mode.max_workers,
        task_cap=min(caps) if caps else None,
    )
