"""What the database is told: what is configured, and who starts fires of which modes.

The one so that ``stoker.enqueue`` refuses what nobody here would run, the other so that ``stoker ready`` knows who is missing.
"""

import os
from collections.abc import Callable, Collection

from stoker.orchestrator.config import Config
from stoker.orchestrator.logs import log
from stoker.orchestrator.settings import ScheduleSettings
from stoker.sql.database import Database, DatabaseUnreachableError, StatementError

CLOCK, DUE, FIRE = "schedule", "due", "fire"
_NO_RIGHT = "42501"
_INTEGER_MAX = 2**31 - 1
_CRON_SECONDS = 150.0
_DAY_SECONDS = 86_400.0
_GAPS = 2.0


def tell_modes(database: Database, config: Config) -> None:
    """Let the database know what is configured, for ``stoker.enqueue``; a role that may not write it leaves it as it is."""
    parameters = {
        "modes": list(config.modes),
        "versions": [mode.version for mode in config.modes.values()],
        "payload_limit": min(config.queue.payload_limit_bytes, _INTEGER_MAX),
    }
    try:
        database.run("see_modes", **parameters)
    except StatementError as error:
        if error.sqlstate != _NO_RIGHT:
            raise


def instance() -> str:
    """This process among all hosts'."""
    return f"{os.uname().nodename}:{os.getpid()}"


def beat_starter(
    database: Database, component: str, who: str, expected_seconds: float, modes: Collection[str], gaps: float = 0.0
) -> bool:
    """A heartbeat of one who starts fires of ``modes``; the next may be ``gaps`` times as late as this one."""
    parameters = {"component": component, "instance": who, "expected": expected_seconds, "modes": sorted(modes), "gaps": gaps}
    return told(component, lambda: database.run("beat_starter", **parameters))


def beat_of_cron(database: Database, config: Config, *, due: bool, lane: str, only: Collection[str]) -> bool:
    """Cron, or a person, called ``stoker fire``: it may be as late again as it was this time, twice."""
    host = os.uname().nodename
    if due:
        return beat_starter(database, DUE, host, _CRON_SECONDS, modes_of_schedules(config), _GAPS)
    expected = config.watchdog.expected_interval_seconds
    promised = _DAY_SECONDS if expected is None else expected + config.watchdog.grace_seconds
    return beat_starter(database, FIRE, f"{host}:{lane}", promised, only or config.served, _GAPS)


def beat_of_schedule(database: Database, config: Config, schedule: ScheduleSettings) -> bool:
    """Cron called ``stoker fire --schedule``: it is to come again by the schedule's next due time, and its grace."""

    def tell() -> None:
        from stoker.orchestrator.slots import until_next  # 3 ms, for a fire of a schedule

        seconds = until_next(database, schedule) + schedule.grace_seconds
        modes = sorted(set(schedule.modes or config.served) & set(config.served))
        host = os.uname().nodename
        database.run("beat_schedule", component=due_component(schedule.name), instance=host, expected=seconds, modes=modes)

    return told(due_component(schedule.name), tell)


def due_component(name: str) -> str:
    """What cron is called among heartbeats that looks at one schedule alone."""
    return f"{DUE} {name}"


def modes_of_schedules(config: Config) -> set[str]:
    """The modes that this host starts by its schedules; one that names none starts all."""
    named = {mode for one in config.schedules.values() for mode in one.modes or config.served}
    return named & set(config.served)


def told(component: str, tell: Callable[[], object]) -> bool:
    """Whether the database could be told; if not, nothing is broken by it."""
    try:
        tell()
    except (DatabaseUnreachableError, StatementError) as error:
        log("heartbeat failed", "warning", loop=component, reason=str(error)[:500])
        return False
    return True
