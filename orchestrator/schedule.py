"""The clock of ``stoker schedule`` and ``stoker run``: it starts a fire when a slot is due, and knows no more.

APScheduler only wakes it: it keeps no jobs, drops no late ones, and runs one at a time of each. Which slot is due, and what
becomes of it, the fire decides by the database's clock; so a clock that is early, late, slept or was started twice does no
harm. Due times are reckoned in the database's time, whatever the host believes.
"""

import os
import sys
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import count
from typing import Any

import anyio
from anyio.abc import TaskGroup
from anyio.to_thread import run_sync
from apscheduler.schedulers.asyncio import AsyncIOScheduler
from apscheduler.triggers.base import BaseTrigger

from stoker.hygiene.process import Child, spawn
from stoker.orchestrator.beats import Pulse
from stoker.orchestrator.logs import log
from stoker.orchestrator.settings import ScheduleSettings
from stoker.orchestrator.slots import may_be_due, rule_of, upcoming
from stoker.orchestrator.tell import CLOCK, beat_starter, instance
from stoker.sql.database import Database, DatabaseUnreachableError, StatementError

_LOOK_AGAIN_SECONDS = 10.0
_SLEPT_SECONDS = 5.0
_MOST_DOUBLED = 5
_EXPECTED_SECONDS = 60.0
_MARGIN = timedelta(milliseconds=20)


class DueTrigger(BaseTrigger):  # type: ignore[misc]
    """Wakes when a slot is due: however late it is called, the next time lies ahead."""

    def __init__(self, schedule: ScheduleSettings, ahead: Callable[[], timedelta]) -> None:
        self._rule = rule_of(schedule)
        self._ahead = ahead

    def get_next_fire_time(self, previous_fire_time: datetime | None, now: datetime) -> datetime:
        """The host's time at which the database's clock shows the next due time."""
        del previous_fire_time
        ahead = self._ahead()
        return next(upcoming(self._rule, now.astimezone(UTC) + ahead - _MARGIN)) - ahead + _MARGIN


class Clock:
    """The standing process. ``config`` is handed on to the fires that it starts, of these ``modes``."""

    def __init__(
        self,
        database: Database,
        schedules: Mapping[str, ScheduleSettings],
        config: str,
        modes: Collection[str] = (),
        pulse: Pulse | None = None,
    ) -> None:
        self._database = database
        self._schedules = schedules
        self._command = [sys.executable, "-P", "-m", "stoker.orchestrator.cli", "--config", config, "fire", "--schedule"]
        self._modes = modes
        self._pulse = pulse or Pulse()
        self._ahead = timedelta()
        self._fires: dict[str, list[Child]] = {name: [] for name in schedules}
        self._waiting: set[str] = set()
        self._failures: dict[str, int] = {}
        self._scheduler: Any = None

    async def start(self, group: TaskGroup) -> None:
        """Begin; what was due while nobody was awake is fired at once."""
        await self._set_clock()
        scheduler = self._scheduler = AsyncIOScheduler(timezone=UTC)
        for name, schedule in self._schedules.items():
            trigger = DueTrigger(schedule, lambda: self._ahead)
            job = partial(self._wake, group, name)
            scheduler.add_job(job, trigger, id=name, misfire_grace_time=None, coalesce=True, max_instances=1)
        scheduler.start()
        for name in self._schedules:
            group.start_soon(self.fire, name)
        group.start_soon(self._stay_awake, scheduler, group)

    async def stop(self) -> None:
        """Start no more; the fires that run are told, and waited for."""
        if self._scheduler is not None:
            self._scheduler.shutdown(wait=False)
        with anyio.CancelScope(shield=True):
            running = [child for fires in self._fires.values() for child in fires]
            for child in running:
                child.terminate()
            for child in running:
                await child.wait()
            await run_sync(self._beat, 0.0)

    async def _wake(self, group: TaskGroup, name: str) -> None:
        """In our own group, which ends with us, rather than in a task of the scheduler's."""
        group.start_soon(self.fire, name)

    async def fire(self, name: str) -> None:
        """Start a fire for whatever slot of this schedule is due, and wait for its end.

        While one runs, another one only says of its slot that it is skipped; or the slot waits till the first has ended.
        """
        running = self._fires[name]
        if running and self._schedules[name].overlap == "wait":
            self._waiting.add(name)
            return
        if len(running) > 1:
            return
        child = spawn([*self._command, name], env=os.environ, stdout=2, die_with_parent=False)
        running.append(child)
        try:
            await child.wait()
        finally:
            if child.returncode is not None:
                running.remove(child)
        self._failures[name] = self._failures.get(name, 0) + 1 if child.returncode else 0
        if child.returncode:
            log("fire ended badly", "error", schedule=name, status=child.returncode)
        if name in self._waiting:
            self._waiting.discard(name)
            await self.fire(name)

    async def _stay_awake(self, scheduler: Any, group: TaskGroup) -> None:
        """A host that slept, or whose clock was set, does not wait out what it meant to wait for, and looks what was due.

        So does one whose fire found no database, or had to wait for a fire of another schedule: later each time it fails.
        """
        for turn in count():
            before = datetime.now(UTC)
            await anyio.sleep(_LOOK_AGAIN_SECONDS)
            await self._set_clock()
            for job in scheduler.get_jobs():
                job.reschedule(job.trigger)
            slept = abs((datetime.now(UTC) - before).total_seconds() - _LOOK_AGAIN_SECONDS) > _SLEPT_SECONDS
            for name, schedule in self._schedules.items():
                is_its_turn = turn % 2 ** min(self._failures.get(name, 0), _MOST_DOUBLED) == 0
                if slept or (is_its_turn and not self._fires[name] and await run_sync(self._is_left, schedule)):
                    group.start_soon(self.fire, name)

    def _is_left(self, schedule: ScheduleSettings) -> bool:
        """Whether a due time is still to be decided."""
        try:
            return may_be_due(self._database, schedule)
        except (DatabaseUnreachableError, StatementError):
            return False

    def _beat(self, expected_seconds: float = _EXPECTED_SECONDS) -> None:
        beat_starter(self._database, CLOCK, instance(), expected_seconds, self._modes)

    async def _set_clock(self) -> None:
        self._pulse.beat(CLOCK, _EXPECTED_SECONDS)
        try:
            ((now,),) = await run_sync(lambda: self._database.run("clock"))
        except DatabaseUnreachableError as error:
            log("database unreachable", "warning", reason=str(error))
            return
        self._ahead = now - datetime.now(UTC)
        await run_sync(self._beat)
