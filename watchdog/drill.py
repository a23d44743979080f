"""A drill: a slot is withheld on purpose, and the whole path is walked, from finding it late to the page that it is over.

The slot is a schedule of a name that no configuration can have, so that no trigger ever fires it. A drill that dies leaves it
behind: the next look of any watchdog takes it away when its time is over, and resolves its incident.
"""

import json
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from stoker.sql.database import Database, Transaction
from stoker.watchdog.channels import Pager
from stoker.watchdog.delivery import Deliverer
from stoker.watchdog.facts import Facts, Schedule
from stoker.watchdog.judge import judge
from stoker.watchdog.pages import DRILL
from stoker.watchdog.settings import WatchdogSettings

BOUND_SECONDS = 120.0
_RULE = {"cron": None, "every": 1, "timezone": "UTC", "grace": 1.0, "finish": None}
_FIND_SECONDS = 20.0
_AGAIN_SECONDS = 0.2


class DrillError(Exception):
    """The drill cannot be done, or failed; the text says why, and what to do."""


@dataclass(frozen=True, slots=True)
class Step:
    """One part of the path: what was done, and by which channel it did not succeed, and why."""

    words: str
    failures: tuple[str, ...] = ()


def drill(database: Database, settings: WatchdogSettings, pager: Pager) -> Iterator[Step]:
    """Walk the path, step by step. Raises DrillError; whatever happens, nothing is left but what is told of it."""
    for actor, _, reason, _ in database.run("look_gate"):
        raise DrillError(f"the gate is closed by {actor}: {reason}; nothing is expected meanwhile. First: stoker gate open")
    if not pager.channels:
        raise DrillError("no channel is configured in [watchdog], so nobody would be told")
    ((installation, *_),) = database.run("installation")
    name, deliverer = DRILL + uuid.uuid4().hex[:8], Deliverer(database, pager)
    database.run("start_drill", name=name, rule=json.dumps(_RULE), seconds=BOUND_SECONDS)
    try:
        began = time.monotonic()
        words = _find(database, settings, name)
        yield Step(f"a slot that was withheld was found late after {time.monotonic() - began:.1f} s")
        database.run("see_incident", cause=name, words=words)
        ((incident,),) = database.run("open_drill", cause=name, channels=list(pager.channels))
        deliverer.deliver(str(installation), incident)
        yield _told(database, incident, "the page went out by")
    finally:
        ended = database.run("end_drill", name=name)
    for (incident,) in ended:
        database.in_transaction(_close, repeatable=True)
        deliverer.deliver(str(installation), incident)
        yield _told(database, incident, "that it is over was told by")


def _find(database: Database, settings: WatchdogSettings, name: str) -> str:
    until = time.monotonic() + _FIND_SECONDS
    while time.monotonic() < until:
        for found in judge(Facts(schedules=database.rows(Schedule, "watch_schedules", drill=name)), settings):
            return found.words
        time.sleep(_AGAIN_SECONDS)
    raise DrillError(f"a slot that was due every second was not found late within {_FIND_SECONDS:g} s: does the clock stand?")


def _told(database: Database, incident: int, words: str) -> Step:
    rows: list[tuple[Any, ...]] = database.run("drill_channels", incident=incident)
    failures = tuple(f"{name}: {failure or 'it is still sending'}" for name, is_taken, failure in rows if not is_taken)
    return Step(f"{words} {', '.join(name for name, is_taken, _ in rows if is_taken) or 'nobody'}", failures)


def _close(tx: Transaction) -> None:
    tx.run("lock_pages")
    tx.run("close_pages")
