"""``stoker fire``, without what the command line is built with: cron runs it often, and most often there is nothing to do.

``read`` takes the plain form of the command and leaves all else (help, mistakes, shortened names) to the full command line,
which knows the same options: a test holds the two together. ``run`` is what both do.
"""

import os
import random
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from stoker.orchestrator.logs import log
from stoker.orchestrator.session import Session, UsageError, say, say_json

if TYPE_CHECKING:
    from stoker.orchestrator.fire import Ended
    from stoker.orchestrator.settings import ScheduleSettings

SOME_FAILED, REFUSED, NOT_DELIVERED, INTERNAL = 10, 11, 13, 1
_LANE_LENGTH = 63
_NAME = "fire"
BEFORE = {"--config": "config", "-c": "config"}
VALUES = {"--mode": "modes", "-m": "modes", "--lane": "lane", "--reason": "reason", "--schedule": "schedule"}
FLAGS = {"--exit-code": "exit_code", "--json": "as_json", "--due": "due"}


@dataclass(frozen=True)
class Options:
    """What was asked for."""

    config: str | None = None
    modes: tuple[str, ...] = ()
    lane: str = "main"
    reason: str | None = None
    exit_code: bool = False
    as_json: bool = False
    schedule: str | None = None
    due: bool = False


def read(words: Sequence[str]) -> Options | None:
    """The options in a plain ``[--config PATH] fire [...]``; None for anything else."""
    if _NAME not in words:
        return None
    place = words.index(_NAME)
    given: dict[str, Any] = {}
    before, after = iter(words[:place]), iter(words[place + 1 :])
    plain = all(_take(given, word, before, BEFORE, {}) for word in before)
    return Options(**given) if plain and all(_take(given, word, after, VALUES, FLAGS) for word in after) else None


def _take(given: dict[str, Any], word: str, rest: Iterator[str], values: dict[str, str], flags: dict[str, str]) -> bool:
    """Take one option with its value; False when it is not plain, or given twice."""
    if word in flags:
        given[flags[word]] = True
        return True
    value = next(rest, "-") if word in values else "-"
    name = values.get(word, "")
    if value.startswith("-") or (name in given and name != "modes"):
        return False
    given[name] = (*given.get(name, ()), value) if name == "modes" else value
    return True


def run(session: Session, options: Options) -> int:
    """Run one fire: clean up, decide, fan out, wait, write one note, and print it; the exit code.

    Under a schedule, or all that are due: only if a slot is due, in the schedule's lane, modes and limits.
    """
    if not 0 < len(options.lane) <= _LANE_LENGTH:
        raise UsageError(f"a lane is a name of 1 to {_LANE_LENGTH} characters")
    if options.due or options.schedule is not None:
        return max(_ran(session, options, schedule) for schedule in _schedules(session, options))
    return _ran(session, options, None)


def _schedules(session: Session, options: Options) -> list["ScheduleSettings"]:
    schedules = session.config.schedules
    if options.due and (options.schedule is not None or not schedules):
        raise UsageError("give --schedule or --due, not both" if schedules else "no [[schedules]] is configured")
    if options.lane != "main" or options.modes:
        raise UsageError("a schedule says its own lane and modes")
    if options.schedule is not None and options.schedule not in schedules:
        raise UsageError(f"no schedule {options.schedule!r}; configured: {', '.join(schedules) or 'none'}")
    return list(schedules.values()) if options.due else [schedules[options.schedule or ""]]


def _ran(session: Session, options: Options, schedule: "ScheduleSettings | None") -> int:
    ended = _fired(session, options, schedule)
    if ended.idle:
        log("nothing is due", schedule=schedule.name if schedule else None, reason=ended.idle)
        return 0
    if ended.refusal is not None:
        show(
            {"fire": ended.fire, "refused": ended.refusal},
            f"fire {ended.fire} refused: {ended.refusal}" if ended.fire else f"slot skipped: {ended.refusal}",
            as_json=options.as_json,
        )
        return REFUSED if options.exit_code else 0
    if not ended.closed:
        sys.stderr.write(f"stoker: fire {ended.fire} was closed by somebody else; its note is theirs\n")
        return INTERNAL
    facts = facts_of(session, ended.fire)
    show_note(facts, as_json=options.as_json)
    is_delivered = deliver(session, ended)
    if ended.signal_number:
        return 128 + ended.signal_number
    if options.exit_code and any(one["failed"] for one in facts["modes"]):
        return SOME_FAILED
    return NOT_DELIVERED if options.exit_code and not is_delivered else 0


def deliver(session: Session, ended: "Ended") -> bool:
    """Send the note, for a few seconds at most, to those who are to be told; False when one of them was not."""
    if not session.config.notify or not ended.closed:
        return True
    from stoker.orchestrator.delivery import deliver_note

    return deliver_note(session.database, session.config, os.environ, ended.fire)


def _fired(session: Session, options: Options, schedule: "ScheduleSettings | None") -> "Ended":
    """The launcher comes first, if it may be needed: its template imports beside us."""
    if schedule is not None:
        if options.due and schedule is next(iter(session.config.schedules.values())):
            _beat(session, options)
        elif not options.due:
            _beat_of_schedule(session, schedule)
        if idle := _nothing_due(session, schedule):
            return idle
    if schedule is not None and schedule.jitter_seconds:
        time.sleep(random.uniform(0.0, schedule.jitter_seconds))  # noqa: S311 - jitter is no secret

    from stoker.orchestrator.launchers.local import LocalLauncher

    with closing(LocalLauncher(os.environ)) as launcher:
        from stoker.orchestrator.fire import Asked, Fire

        if schedule is None:
            _beat(session, options)
            asked = Asked(options.lane, options.reason, known(session, options.modes))
            return Fire(session.database, session.config, os.environ, asked, launcher).run()
        reason = options.reason or f"schedule {schedule.name}"
        asked = Asked(schedule.lane, reason, frozenset(schedule.modes), schedule=schedule)
        return Fire(session.database, session.config.under(schedule), os.environ, asked, launcher).run()


def _beat(session: Session, options: Options) -> None:
    """Say that cron came."""
    from stoker.orchestrator.tell import beat_of_cron

    beat_of_cron(session.database, session.config, due=options.due, lane=options.lane, only=options.modes)


def _beat_of_schedule(session: Session, schedule: "ScheduleSettings") -> None:
    """Say that cron came for this schedule."""
    from stoker.orchestrator.tell import beat_of_schedule

    beat_of_schedule(session.database, session.config, schedule)


def _nothing_due(session: Session, schedule: "ScheduleSettings") -> "Ended | None":
    """Sweep and be done, without the cost of a launcher, when nothing is due."""
    from stoker.orchestrator.fire import Ended
    from stoker.orchestrator.slots import may_be_due
    from stoker.orchestrator.sweeping import sweep_now

    if may_be_due(session.database, schedule):
        return None
    sweep_now(session.config, session.database)
    return Ended(0, idle="no slot is due")


def run_task(session: Session, task: int, mode: str) -> "Ended":
    """A fire for one task alone, in a lane of its own."""
    from stoker.orchestrator.launchers.local import LocalLauncher

    with closing(LocalLauncher(os.environ)) as launcher:
        from stoker.orchestrator.fire import Asked, Fire

        asked = Asked("inline", f"task {task} alone", frozenset({mode}), task=task)
        return Fire(session.database, session.config, os.environ, asked, launcher).run()


def known(session: Session, modes: Sequence[str] | None) -> frozenset[str]:
    """The modes that were named; raises UsageError when one is not configured."""
    unknown = sorted(set(modes or ()) - set(session.config.modes))
    if unknown:
        raise UsageError(f"unknown mode {unknown[0]!r}; configured: {', '.join(sorted(session.config.modes)) or 'none'}")
    elsewhere = sorted(set(modes or ()) - set(session.config.served))
    if elsewhere:
        raise UsageError(
            f"this host does not run mode {elsewhere[0]!r}: [worker] modes is {', '.join(session.config.worker.modes)}"
        )
    return frozenset(modes or ())


def facts_of(session: Session, number: int | None) -> dict[str, Any]:
    """The facts of a fire's note, or of the newest note; raises UsageError when there is none."""
    rows = session.database.run("find_note", fire=number)
    if not rows:
        raise UsageError("there is no note yet" if number is None else f"fire {number} has no note")
    facts: dict[str, Any] = rows[0][2]
    return facts


def show_note(facts: dict[str, Any], *, as_json: bool) -> None:
    """Print a note."""
    if as_json:
        say_json(facts)
        return
    from stoker.orchestrator.render import markdown

    sys.stdout.write(markdown(facts))


def show(value: dict[str, Any], words: str, *, as_json: bool) -> None:
    """Print a result, for programs or for people."""
    if as_json:
        say_json(value)
    else:
        say(words)
