"""Whether what is configured would be done: somebody living starts its fires, keeps its loops, and its handlers can be run.

Between fires no worker lives, so nobody can be asked: heartbeats say who stands, with what they start, and the last worker of
each mode said whether it could run its handler.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from stoker.orchestrator.config import Config
from stoker.orchestrator.gate import gate_words
from stoker.orchestrator.slots import paused
from stoker.orchestrator.tell import CLOCK, DUE, FIRE, due_component
from stoker.sql.database import Database
from stoker.worker.health import UNWELL

_STARTERS = {CLOCK, DUE, FIRE}
_BY_SCHEDULE = {CLOCK, DUE}
_WATCHDOG = "watchdog"


@dataclass(frozen=True, slots=True)
class Beat:
    """One who was heard of: how many seconds ago, and in how many seconds at the most it was to be heard of again."""

    component: str
    instance: str
    at: datetime
    seconds: float
    expected_seconds: float
    is_late: bool
    modes: list[str] | None = None
    failures: int = 0
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Broken:
    """A mode whose newest worker could not run its handler."""

    mode: str
    fire: int
    exit_status: str | None


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is configured: modes, and which of them are programs; schedules; loops."""

    modes: Sequence[str]
    programs: frozenset[str] = frozenset()
    schedules: Sequence[str] = ()
    loops: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Readiness:
    """What is missing, in words; nothing: it is ready. ``remarks`` are what people decided, and no fault."""

    missing: list[str]
    remarks: list[str]
    beats: list[Beat]

    @property
    def is_ready(self) -> bool:
        """Whether nothing is missing."""
        return not self.missing

    def facts(self) -> dict[str, Any]:
        """As JSON values: of those that are not heard of any more only the newest of each kind."""
        return {
            "ready": self.is_ready,
            "missing": self.missing,
            "remarks": self.remarks,
            "processes": [
                {
                    "component": one.component,
                    "instance": one.instance,
                    "at": one.at.isoformat(),
                    "seconds": round(one.seconds, 1),
                    "expected_seconds": one.expected_seconds,
                    "is_late": one.is_late,
                    "failures": one.failures,
                }
                for one in self.shown()
            ],
        }

    def shown(self) -> list[Beat]:
        """The living, and of components without any the one that was heard of last."""
        living = [one for one in self.beats if not one.is_late]
        seen = {one.component for one in living}
        for one in self.beats:
            if one.component not in seen:
                seen.add(one.component)
                living.append(one)
        return living


def loop_component(name: str) -> str:
    """What a user's loop is called among heartbeats; no component of stoker's own has a space in its name."""
    return f"loop {name}"


def wanted(config: Config) -> Wanted:
    """What this configuration wants to be covered, by whichever host."""
    programs = frozenset(name for name, mode in config.modes.items() if mode.command)
    return Wanted(list(config.modes), programs, list(config.schedules), list(config.loops))


def look(database: Database, config: Config, *, briefly: bool = False) -> Readiness:
    """Look and judge; ``briefly`` leaves out what people and errors said, for those who are not known."""
    beats = database.rows(Beat, "list_heartbeats")
    broken = _broken(database, config)
    words, _ = gate_words(database, config)
    remarks = [words] if words else []
    remarks += [f"mode {mode} is paused by {by}: {reason}" for mode, by, reason, _ in database.run("list_paused")]
    remarks += [f"schedule {name} is {words}" for name, words in paused(database).items()]
    if briefly:
        broken = [replace(one, exit_status=(one.exit_status or "").partition(":")[0]) for one in broken]
        remarks = [text.partition(" by ")[0] for text in remarks]
    return Readiness(judge(beats, broken, wanted(config)), remarks, beats)


def judge(beats: Sequence[Beat], broken: Sequence[Broken], want: Wanted) -> list[str]:
    """What is missing, in words."""
    missing = []
    alone = {due_component(name) for name in want.schedules}
    starters = [one for one in beats if one.component in _STARTERS | alone]
    living = [one for one in starters if not one.is_late]
    if not living:
        missing.append(f"no stoker run or cron beat {_since(starters)}: nothing starts fires")
    elif not any(one.component in _BY_SCHEDULE for one in living):
        known = {one.component for one in living}
        unknown = [name for name in want.schedules if due_component(name) not in known]
        if unknown:
            clocks = [one for one in starters if one.component in _BY_SCHEDULE | alone]
            names = ", ".join(unknown)
            missing.append(f"schedules {names}: no stoker run, and no stoker fire --due from cron, {_since(clocks)}")
    covered = {mode for one in living for mode in one.modes or ()}
    if living:
        missing += [
            f"mode {mode}: nobody living starts it; [worker] modes, and the modes of schedules, leave it out"
            for mode in want.modes
            if mode not in covered
        ]
    missing += [_unusable(one, want) for one in broken]
    return missing + _loops_missing(beats, want)


def troubles(beats: Sequence[Beat], want: Wanted) -> list[str]:
    """What of that which stands is not well, in words: loops that nobody keeps, what is not heard of, what keeps failing.

    Who ended in order is not missed, and neither is one whose place another has taken.
    """
    newest: dict[str, Beat] = {}
    for one in sorted(beats, key=lambda one: one.is_late):
        newest.setdefault(one.component, one)
    loops = {loop_component(name) for name in want.loops}
    words = _loops_missing(beats, want)
    words += [
        f"{one.component}: not heard of {_since([one])}; it was to be within {one.expected_seconds:.0f} s"
        for one in newest.values()
        if one.is_late and one.expected_seconds and one.component not in {*_STARTERS, *loops, _WATCHDOG}
    ]
    words += [
        f"{one.component}: failed {one.failures:,} time{'s' * (one.failures > 1)} in a row ({one.instance}), last: {one.error}"
        for one in beats
        if one.failures and not one.is_late
    ]
    return words


def _loops_missing(beats: Sequence[Beat], want: Wanted) -> list[str]:
    by_name = {name: [one for one in beats if one.component == loop_component(name)] for name in want.loops}
    return [
        f"loop {name}: no stoker run has kept it {_since(own)}"
        for name, own in by_name.items()
        if all(one.is_late for one in own)
    ]


def unusable(database: Database, config: Config) -> list[str]:
    """The modes whose newest worker could not work, in words."""
    return [_unusable(one, wanted(config)) for one in _broken(database, config)]


def _broken(database: Database, config: Config) -> list[Broken]:
    return [Broken(*row) for row in database.run("broken_modes", modes=sorted(config.modes))]


def _unusable(one: Broken, want: Wanted) -> str:
    what = "its program could not be started" if one.mode in want.programs else "its handler could not be imported"
    status = one.exit_status or ""
    if status.startswith(UNWELL):
        what, status = f"its {UNWELL}", status.removeprefix(UNWELL).removeprefix(": ")
    return f"mode {one.mode}: {what} in fire {one.fire}" + (f": {status}" if status else "")


def _since(beats: Iterable[Beat]) -> str:
    """Since when nobody was heard of; beats come the newest first."""
    last = next(iter(beats), None)
    return f"since {last.at:%Y-%m-%d %H:%M:%S} ({last.instance})" if last else "so far"
