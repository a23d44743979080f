"""Who has gone silent: a pure function from heartbeats to those that are missed.

Who ended in order is not missed, and who died is not when another one has taken its place: one of the same component that
began after it was last heard of, each for one. So a crash that was healed by a restart is over, and of three that died at
once, of which two came back, one is missed. What a process kept besides its sweep is not missed when the process was replaced:
its configuration may keep less now. A process of which nothing is heard at all is missed once, by its sweep, whatever it kept.
What cron calls beats only when it is called, perhaps by a person: it is missed when
nobody living does the same, and has kept a pace before.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace
from math import inf

from stoker.watchdog.facts import Away, Beat

_PATIENCE = 2.0  # times what was promised
_WHOLE = "sweep"  # what every process keeps that keeps anything
_CALLED = {"due": ("due", "schedule")}
_BY_OUTCOME = ("fire", "due ")  # how the names begin of what is judged by its slots and notes: cron that starts fires
_PACE_BEATS = 3
CRON = " cron"  # ends the name of an instance that is called again and again, and promises nothing


def missed(beats: Iterable[Beat], away: Away) -> dict[str, list[Beat]]:
    """By component, who is silent for longer than twice what was promised, while it could be heard; the longest first.

    A sweep that is silent names what of its process went silent ``along`` with it, and that is told nowhere else.
    """
    by_component: dict[str, list[Beat]] = defaultdict(list)
    for one in beats:
        by_component[one.component].append(one)
    dead = {one for one in _judged(by_component) if _is_silent(one, away)}
    along: dict[str, list[str]] = defaultdict(list)
    for one in dead:
        along[one.instance].append(one.component)
    dead |= set(_of_silent_processes(by_component, dead, away))
    sweeps = [one for one in by_component[_WHOLE] if one in dead]
    replaced, silent_processes = _replaced(sweeps, by_component[_WHOLE]), {one.instance for one in sweeps}
    found = {}
    for component, all_of_it in by_component.items():
        if component in _CALLED:
            peers = [one for name in _CALLED[component] for one in by_component.get(name, ())]
            left = [] if any(_lives(one, away) for one in peers) else [one for one in all_of_it if one in dead]
        else:
            silent = [one for one in all_of_it if one in dead]
            own = _replaced(silent, all_of_it)
            left = [one for one in silent if one.instance not in own and one.instance not in replaced]
        if component == _WHOLE:
            left = [replace(one, along=tuple(sorted({*along[one.instance]} - {_WHOLE}))) for one in left]
        else:
            left = [one for one in left if one.instance not in silent_processes]
        if left:
            found[component] = sorted(left, key=lambda one: (one.at, one.instance))
    return found


def _judged(by_component: dict[str, list[Beat]]) -> Iterator[Beat]:
    for component, all_of_it in by_component.items():
        if not component.startswith(_BY_OUTCOME):
            for one in all_of_it:
                keeps_pace = component not in _CALLED or one.beats >= _PACE_BEATS
                if one.expected_seconds > 0 and keeps_pace and not one.instance.endswith(CRON):
                    yield one


def _of_silent_processes(by_component: dict[str, list[Beat]], dead: set[Beat], away: Away) -> Iterator[Beat]:
    """The sweeps of processes one thing of which is missed, and nothing of which was heard for as long as that."""
    quiet: dict[str, float] = {}
    for one in (one for all_of_it in by_component.values() for one in all_of_it if one.expected_seconds > 0):
        quiet[one.instance] = min(quiet.get(one.instance, inf), _silent(one, away))
    missed_after = {one.instance: inf for one in by_component[_WHOLE] if one.expected_seconds > 0}
    for one in dead:
        if one.instance in missed_after:
            missed_after[one.instance] = min(missed_after[one.instance], _PATIENCE * one.expected_seconds)
    return (one for one in by_component[_WHOLE] if quiet.get(one.instance, 0.0) > missed_after.get(one.instance, inf))


def _lives(one: Beat, away: Away) -> bool:
    return one.expected_seconds > 0 and not _is_silent(one, away)


def _is_silent(one: Beat, away: Away) -> bool:
    return _silent(one, away) > _PATIENCE * one.expected_seconds


def _silent(one: Beat, away: Away) -> float:
    return one.silent_seconds - away.within(one.silent_seconds)


def _replaced(dead: list[Beat], all_of_it: list[Beat]) -> set[str]:
    """The instances of the dead that have a successor: who died last has the fewest, and takes the youngest."""
    youngest = iter(sorted(all_of_it, key=lambda one: one.began_at, reverse=True))
    successor, found = next(youngest, None), set()
    for one in sorted(dead, key=lambda one: one.at, reverse=True):
        if successor is not None and successor.began_at > one.at:
            found.add(one.instance)
            successor = next(youngest, None)
    return found
