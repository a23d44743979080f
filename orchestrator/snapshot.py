"""What a decision is made from: the queue as it stands, by mode, and how long tasks took of late."""

from dataclasses import dataclass, replace

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
    broken = {mode for mode, *_ in database.run("broken_modes", modes=sorted(config.modes))}
    paused = {mode for mode, *_ in database.run("list_paused")}
    paces = dict(database.run("recent_pace", modes=sorted(config.modes)))
    runnable: dict[str, list[Queued]] = {name: [] for name in config.modes}
    for one in queued:
        if _is_served(one, config):
            runnable[one.mode].append(one)
    asked = [name for name in config.served if not only or name in only]
    return Snapshot(
        [
            replace(_backlog(name, config, runnable[name], paces.get(name)), is_broken=name in broken, is_paused=name in paused)
            for name in asked
        ],
        _unserved(queued, config),
    )


def unserved(database: Database, config: Config) -> list[tuple[str, int, int]]:
    """What stands queued that this configuration does not run: (mode, version, count)."""
    return _unserved(database.rows(Queued, "backlog"), config)


def why_unserved(mode: str, version: int, count: int, config: Config) -> str:
    """The same in words."""
    if mode not in config.modes:
        return f"{count:,} task(s) of {mode} wait: the mode is not configured here"
    return f"{count:,} task(s) of {mode} wait: payload version {version}, this configuration knows {config.modes[mode].version}"


def _unserved(queued: list[Queued], config: Config) -> list[tuple[str, int, int]]:
    return [(one.mode, one.version, one.ready + one.later) for one in queued if not _is_served(one, config)]


def _is_served(one: Queued, config: Config) -> bool:
    return one.mode in config.modes and one.version <= config.modes[one.mode].version


def _backlog(name: str, config: Config, queued: list[Queued], seconds_each: float | None) -> Backlog:
    mode = config.modes[name]
    caps = [cap for cap in (mode.task_cap, config.limits.task_cap) if cap is not None]
    return Backlog(
        mode=name,
        ready=sum(one.ready for one in queued),
        seconds_each=seconds_each,
        oldest_seconds=max((one.oldest_seconds for one in queued), default=0.0),
        weight=mode.weight,
        max_workers=mode.max_workers,
        task_cap=min(caps) if caps else None,
    )
