"""A drill: a slot is withheld on purpose, and the whole path is walked, from finding it late to the page that it is over.

The slot is a schedule of a name that no configuration can have, so that no trigger ever fires it. A drill that dies leaves it
behind: the next look of any watchdog takes it away when its time is over, and resolves its incident.
"""

import json
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass

from stoker.sql.database import Database, Transaction
from stoker.watchdog.channels import Pager
from stoker.watchdog.delivery import Deliverer
from stoker.watchdog.facts import Facts, Schedule
from stoker.watchdog.judge import judge
from stoker.watchdog.pages import DRILL, RESOLVE, TRIGGER
from stoker.watchdog.settings import WatchdogSettings

BOUND_SECONDS = 120.0
_RULE = {"cron": None, "every": 1, "timezone": "UTC", "grace": 1.0, "finish": None}
_FIND_SECONDS = 20.0
_SETTLE_SECONDS = 25.0  # a watchdog that has taken a page sends it, or fails, within a little less
_AGAIN_SECONDS = 0.2


class DrillError(Exception):
    """The drill cannot be done, or failed; the text says why, and what to do."""


@dataclass(frozen=True, slots=True)
class Step:
    """One part of the path: what was done, and by which channel it did not succeed, and why."""

    words: str
    failures: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Fare:
    """How a page fared by one channel."""

    channel: str
    is_taken: bool
    is_sending: bool
    failure: str | None

    @property
    def is_settled(self) -> bool:
        """Taken, or refused."""
        return self.is_taken or (self.failure is not None and not self.is_sending)


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
        opened = database.run("open_drill", cause=name, channels=list(pager.channels))
        if not opened:
            raise DrillError(
                "the drill took so long that a look of the watchdog ended it: try again when the database is less busy"
            )
        ((incident,),) = opened
        deliverer.deliver(str(installation), incident)
        yield _told("the page went out by", _settled(database, incident, TRIGGER))
    finally:
        ended = database.run("end_drill", name=name)
    for (incident,) in ended:
        yield _end(database, deliverer, str(installation), incident)


def _end(database: Database, deliverer: Deliverer, installation: str, incident: int) -> Step:
    """That it is over is written when no page of it is being sent any more, by this process or a watchdog."""
    database.in_transaction(_close, repeatable=True)
    if _fares(database, incident, RESOLVE):
        deliverer.deliver(installation, incident)
        return _told("that it is over was told by", _settled(database, incident, RESOLVE))
    hanging = [fare.channel for fare in _fares(database, incident, TRIGGER) if fare.is_sending]
    if not hanging:
        return Step("that it is over was told to nobody, since nobody took its page")
    why = "a watchdog tells it when the page is not being sent any more"
    return Step("that it is over was told to nobody yet", tuple(f"{name}: {why}" for name in hanging))


def _find(database: Database, settings: WatchdogSettings, name: str) -> str:
    until = time.monotonic() + _FIND_SECONDS
    while time.monotonic() < until:
        for found in judge(Facts(schedules=database.rows(Schedule, "watch_schedules", drill=name)), settings):
            return found.words
        time.sleep(_AGAIN_SECONDS)
    raise DrillError(f"a slot that was due every second was not found late within {_FIND_SECONDS:g} s: does the clock stand?")


def _settled(database: Database, incident: int, action: str) -> list[Fare]:
    """How its page fared by each channel: another watchdog may be sending it, which is waited for."""
    until = time.monotonic() + _SETTLE_SECONDS
    while True:
        fares = _fares(database, incident, action)
        if all(fare.is_settled for fare in fares) or time.monotonic() > until:
            return fares
        time.sleep(_AGAIN_SECONDS)


def _fares(database: Database, incident: int, action: str) -> list[Fare]:
    return database.rows(Fare, "drill_channels", incident=incident, action=action)


def _told(words: str, fares: list[Fare]) -> Step:
    taken = ", ".join(fare.channel for fare in fares if fare.is_taken)
    why = "it is still sending"
    failures = [f"{fare.channel}: {why if fare.is_sending else fare.failure or why}" for fare in fares if not fare.is_taken]
    return Step(f"{words} {taken or 'nobody'}", tuple(failures))


def _close(tx: Transaction) -> None:
    tx.run("lock_pages")
    tx.run("close_pages")
