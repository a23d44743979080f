"""``stoker run``: the loops that stand, on one skeleton.

Each beats first, works second, then sleeps its interval, a little more or less; after a failure it waits longer each time, a
minute at the most. A database that is away is no failure of the loop. A core loop that fails otherwise takes everything down,
loudly; a sidecar is told of, and tried again.
"""

import random
import signal
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import anyio
from anyio.abc import TaskGroup
from anyio.to_thread import run_sync

from stoker.orchestrator.beats import Pulse, beat
from stoker.orchestrator.logs import log
from stoker.orchestrator.schedule import Clock
from stoker.sql.database import Database, DatabaseUnreachableError

BROKEN = 70
_LONGEST_PAUSE_SECONDS = 60.0
_LONGEST_REASON = 500


class CoreLoopError(Exception):
    """A loop that nothing works without has failed; its own error is the cause."""


class Standing(Protocol):
    """What the runtime keeps: ``interval`` is in seconds, ``jitter`` a share of it, ``longest`` how long one batch may take."""

    @property
    def name(self) -> str:
        """What its heartbeats are called."""

    @property
    def interval(self) -> float:
        """How long it rests after each batch."""

    @property
    def core(self) -> bool:
        """Whether its failure takes everything down."""

    @property
    def jitter(self) -> float:
        """By what share of the interval the rest is shorter or longer."""

    @property
    def longest(self) -> float:
        """How long one batch may take by itself."""

    async def once(self) -> int:
        """Do one batch; how much it did."""


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop in this process: ``work`` does one batch, in a thread, and returns how much it did."""

    name: str
    interval: float
    work: Callable[[], int]
    core: bool = True
    jitter: float = 0.1
    longest: float = 0.0

    async def once(self) -> int:
        """Do one batch; how much it did."""
        return await run_sync(self.work)


class Runtime:
    """Keeps loops, and the clock if there are schedules, until SIGTERM or SIGINT.

    ``beside`` is done meanwhile, such as answering probes. ``pulse`` knows what goes on.
    """

    def __init__(
        self,
        database: Database,
        loops: Sequence[Standing],
        clock: Clock | None,
        beside: Callable[[], Coroutine[Any, Any, None]] | None = None,
        pulse: Pulse | None = None,
    ) -> None:
        self._database = database
        self._loops = loops
        self._clock = clock
        self._beside = beside
        self._pulse = pulse or Pulse()

    async def run(self) -> None:
        """Raises CoreLoopError when a core loop failed."""
        failed: list[CoreLoopError] = []
        async with anyio.create_task_group() as group:
            for loop in self._loops:
                group.start_soon(self._keep, loop, group, failed)
            if self._beside is not None:
                group.start_soon(self._beside)
            if self._clock is not None:
                await self._clock.start(group)
            group.start_soon(_until_told, group)
        if self._clock is not None:
            await self._clock.stop()
        with anyio.CancelScope(shield=True):
            await run_sync(self._say_farewell)
        if failed:
            raise failed[0]

    def _say_farewell(self) -> None:
        """Who ends in order is not waited for: its next heartbeat is late at once."""
        _ = all(beat(self._database, loop.name, 0.0) for loop in self._loops)

    async def _keep(self, loop: Standing, group: TaskGroup, failed: list[CoreLoopError]) -> None:
        failures, why = 0, None
        while True:
            await self._beat(loop, failures, why)
            try:
                done = await loop.once()
            except DatabaseUnreachableError as error:
                log("database unreachable", "warning", loop=loop.name, reason=str(error))
                failures, why = failures + 1, "the database could not be reached"
            except Exception as error:  # noqa: BLE001 - whatever a loop raises, its tier decides
                failures, why = failures + 1, str(error)[:_LONGEST_REASON] or type(error).__name__
                log("loop failed", "error", loop=loop.name, core=loop.core, kind=type(error).__name__, reason=why)
                if loop.core:
                    failed.append(CoreLoopError(f"loop {loop.name} failed: {type(error).__name__}"))
                    failed[-1].__cause__ = error
                    group.cancel_scope.cancel()
                    return
            else:
                failures, why = 0, None
                log("loop", "debug", loop=loop.name, done=done)
            if failures:
                await self._beat(loop, failures, why)
            await anyio.sleep(_pause(loop, failures))

    async def _beat(self, loop: Standing, failures: int, why: str | None) -> None:
        """A heartbeat that fails never breaks its loop."""
        expected = 2 * (loop.interval + _LONGEST_PAUSE_SECONDS) + loop.longest
        self._pulse.beat(loop.name, expected)
        await run_sync(beat, self._database, loop.name, expected, failures, why)


async def _until_told(group: TaskGroup) -> None:
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as received:
        async for number in received:
            log("told to stop", signal=signal.Signals(number).name)
            group.cancel_scope.cancel()
            return


def _pause(loop: Standing, failures: int) -> float:
    if failures:
        return min(_LONGEST_PAUSE_SECONDS, 2.0 ** min(failures, 10)) * random.uniform(0.5, 1.0)  # noqa: S311 - no secret
    return loop.interval * random.uniform(1.0 - loop.jitter, 1.0 + loop.jitter)  # noqa: S311 - no secret
