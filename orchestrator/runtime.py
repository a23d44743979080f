"""``stoker run``: the loops that stand, on one skeleton.

Each beats first, works second, then sleeps its interval, a little more or less; after a failure it waits longer each time, a
minute at the most. A database that is away is no failure of the loop. A core loop that fails otherwise takes everything down,
loudly; a sidecar is told of, and tried again.
"""

import os
import random
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import anyio
from anyio.abc import TaskGroup
from anyio.to_thread import run_sync

from stoker.orchestrator.logs import log
from stoker.orchestrator.schedule import Clock
from stoker.sql.database import Database, DatabaseUnreachableError, StatementError

BROKEN = 70
_LONGEST_PAUSE_SECONDS = 60.0


class CoreLoopError(Exception):
    """A loop that nothing works without has failed; its own error is the cause."""


@dataclass(frozen=True, slots=True)
class Loop:
    """``work`` does one batch and returns how much it did. ``interval`` is in seconds, ``jitter`` a share of it."""

    name: str
    interval: float
    work: Callable[[], int]
    core: bool = True
    jitter: float = 0.1


class Runtime:
    """Keeps loops, and the clock if there are schedules, until SIGTERM or SIGINT."""

    def __init__(self, database: Database, loops: Sequence[Loop], clock: Clock | None) -> None:
        self._database = database
        self._loops = loops
        self._clock = clock

    async def run(self) -> None:
        """Raises CoreLoopError when a core loop failed."""
        failed: list[CoreLoopError] = []
        async with anyio.create_task_group() as group:
            for loop in self._loops:
                group.start_soon(self._keep, loop, group, failed)
            if self._clock is not None:
                await self._clock.start(group)
            group.start_soon(_until_told, group)
        if self._clock is not None:
            await self._clock.stop()
        if failed:
            raise failed[0]

    async def _keep(self, loop: Loop, group: TaskGroup, failed: list[CoreLoopError]) -> None:
        failures = 0
        while True:
            await self._beat(loop)
            try:
                done = await run_sync(loop.work)
            except DatabaseUnreachableError as error:
                log("database unreachable", "warning", loop=loop.name, reason=str(error))
                failures += 1
            except Exception as error:  # noqa: BLE001 - whatever a loop raises, its tier decides
                log("loop failed", "error", loop=loop.name, core=loop.core, kind=type(error).__name__, reason=str(error)[:500])
                failures += 1
                if loop.core:
                    failed.append(CoreLoopError(f"loop {loop.name} failed: {type(error).__name__}"))
                    failed[-1].__cause__ = error
                    group.cancel_scope.cancel()
                    return
            else:
                failures = 0
                log("loop", "debug", loop=loop.name, done=done)
            await anyio.sleep(_pause(loop, failures))

    async def _beat(self, loop: Loop) -> None:
        """A heartbeat that fails never breaks its loop."""
        instance = f"{os.uname().nodename}:{os.getpid()}"
        expected = 2 * (loop.interval + _LONGEST_PAUSE_SECONDS)
        try:
            await run_sync(lambda: self._database.run("beat", component=loop.name, instance=instance, expected=expected))
        except (DatabaseUnreachableError, StatementError) as error:
            log("heartbeat failed", "warning", loop=loop.name, reason=str(error)[:500])


async def _until_told(group: TaskGroup) -> None:
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as received:
        async for number in received:
            log("told to stop", signal=signal.Signals(number).name)
            group.cancel_scope.cancel()
            return


def _pause(loop: Loop, failures: int) -> float:
    if failures:
        return min(_LONGEST_PAUSE_SECONDS, 2.0 ** min(failures, 10)) * random.uniform(0.5, 1.0)  # noqa: S311 - no secret
    return loop.interval * random.uniform(1.0 - loop.jitter, 1.0 + loop.jitter)  # noqa: S311 - no secret
