"""A program that is somebody's cron job, as a fire of one task in a lane of its own.

The mode is made here and stands in no file. Its task is put in once the fire is admitted, so that a refusal leaves nothing
behind, and is not started late: if nobody could start it, it expires.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from stoker.hygiene.sweep import Swept
from stoker.orchestrator.config import Config
from stoker.orchestrator.decide import Plan
from stoker.orchestrator.fire import Asked, Fire
from stoker.orchestrator.launchers.local import LocalLauncher
from stoker.sql.database import Database
from stoker.sql.enqueue import NewTask, enqueue
from stoker.sql.new_task import Door
from stoker.worker.orders import Orders
from stoker.worker.settings import ModeSettings

TIMED_OUT, LOST = 124, 1
_TO_START = timedelta(minutes=5)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_EXIT = re.compile(r"exit status (\d+)")


@dataclass(frozen=True, slots=True)
class Wrapped:
    """What is wrapped: its name, the program with its arguments, where it runs, and for how many seconds at most."""

    name: str
    command: tuple[str, ...]
    folder: str
    seconds: float


class WrappedFire(Fire):
    """A fire that brings its task along."""

    def __init__(
        self, database: Database, config: Config, environ: Mapping[str, str], wrapped: Wrapped, launcher: LocalLauncher
    ) -> None:
        asked = Asked(lane=wrapped.name, reason="wrapped", modes=frozenset({wrapped.name}))
        super().__init__(database, _with(config, wrapped, environ), environ, asked, launcher)
        self._wrapped = wrapped

    def _decide(self, fire: int, swept: Swept) -> tuple[Plan, list[tuple[str, int, int]]]:
        with self._database.raw() as connection:
            expires = datetime.now(UTC) + _TO_START
            what = {"program": os.path.basename(self._wrapped.command[0])}  # noqa: PTH119
            door = Door(schema=self._database.target.schema)
            task = enqueue(connection, NewTask(self._wrapped.name, what, max_attempts=1, expires_at=expires), door)
        self._asked = replace(self._asked, task=task)
        return super()._decide(fire, swept)

    def _muster(self, fire: int, plan: Plan) -> list[Orders]:
        return [
            replace(one, folder=self._wrapped.folder, linger=0.0, mode=replace(one.mode, is_plain=True))
            for one in super()._muster(fire, plan)
        ]

    @property
    def task(self) -> int | None:
        """The task, once it is in."""
        return self._asked.task


def exit_code(verdict: str | None, kind: str | None) -> int:
    """What the program's own exit status was, or what stands for it."""
    if verdict == "done":
        return 0
    if found := _EXIT.fullmatch(kind or ""):
        return int(found[1])
    return TIMED_OUT if kind == "timeout" else LOST


def _with(config: Config, wrapped: Wrapped, environ: Mapping[str, str]) -> Config:
    """The configuration with the mode in it. What bounds this fire is the program's own time limit."""
    mode = ModeSettings(
        command=wrapped.command,
        max_attempts=1,
        timeout_seconds=wrapped.seconds,
        env=tuple(name for name in environ if _VARIABLE.fullmatch(name) and not name.startswith("STOKER_")),
    )
    over = wrapped.seconds + config.worker.lease_seconds + config.worker.grace_seconds
    limits = config.limits.changed(
        fires_per_day=None, min_gap_seconds=0.0, max_pool=1, task_cap=1, wall_clock_seconds=None, fire_deadline_seconds=over
    )
    worker = config.worker.changed(modes=())
    return replace(config, limits=limits, worker=worker, modes={**config.modes, wrapped.name: mode}, loops={})
