"""The wait for every worker of a fire to be gone, by exit or by kill. Nothing of the pool is left when it ends."""

import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import anyio
import anyio.lowlevel
from anyio.to_thread import run_sync

from stoker.hygiene.clock import leases_are_judged
from stoker.hygiene.close import DEADLINE, INTERRUPTED, NORMAL
from stoker.hygiene.release import Living, living_workers, release
from stoker.orchestrator.launchers.local import LocalLauncher, LocalWorker
from stoker.orchestrator.progress import Progress
from stoker.sql.database import Database, DatabaseUnreachableError
from stoker.worker.orders import Orders

FENCED = "fenced"
_KILL_AFTER_SECONDS = 10.0


@dataclass(slots=True)
class Barrier:
    """Fans out, waits, and ends by force what does not end by itself. Times in seconds."""

    database: Database
    launcher: LocalLauncher
    installation: str
    fire: int
    fire_lease: float
    worker_lease: float
    fire_deadline: float | None
    grace: float
    reap_ghosts: bool
    progress: Progress
    say: Callable[..., None]
    ended: str = NORMAL
    signal_number: int = 0
    told: int = 0
    workers: list[LocalWorker] = field(default_factory=list)
    stillborn: list[dict[str, Any]] = field(default_factory=list)
    _terms: int = 0
    _termed_at: float = 0.0

    async def run(self, orders: list[Orders]) -> str:
        """Start a worker for each of ``orders`` and return, when all are gone, how the wait ended."""
        started = time.monotonic()
        async with anyio.create_task_group() as around:
            around.start_soon(self._hear_signals)
            around.start_soon(self._renew)
            around.start_soon(self._tick)
            around.start_soon(self._enforce, started)
            try:
                async with anyio.create_task_group() as pool:
                    for each in orders:
                        if self.ended == NORMAL and (worker := self._start(each)):
                            pool.start_soon(self._attend, worker)
                            await anyio.lowlevel.checkpoint()
                    self.launcher.close()
                    self.say("fire opened", fire=self.fire, workers=len(self.workers))
            finally:
                with anyio.CancelScope(shield=True):
                    await self._clear()
            around.cancel_scope.cancel()
        return self.ended

    def _start(self, orders: Orders) -> LocalWorker | None:
        try:
            worker = self.launcher.start(orders)
        except OSError as error:
            self._miss(orders, f"not started: {os.strerror(error.errno or 0)}")
            return None
        self.workers.append(worker)
        return worker

    def _miss(self, orders: Orders, how: str) -> None:
        """Keep for the note what the database cannot know: a worker that never registered."""
        self.stillborn.append({"worker": orders.worker, "mode": orders.mode.name, "ordinal": orders.ordinal, "how": how})
        self.say("worker never registered", "error", worker=orders.worker, how=how)

    async def _attend(self, worker: LocalWorker) -> None:
        await self.launcher.attend(worker)
        self.launcher.end_strays(self.workers)
        if self.ended != FENCED:
            await run_sync(self._free, worker)

    def _free(self, worker: LocalWorker) -> None:
        """A worker that left without its own last word is lost: free what it held, at once."""
        orders = worker.orders
        living = Living(orders.worker, self.fire, orders.mode.name, orders.ordinal, {}, lapsed=False, fenced=False)
        try:
            freed = release(
                self.database,
                living,
                "worker lost",
                installation=self.installation,
                status=worker.status,
                reap_ghosts=self.reap_ghosts,
            )
        except DatabaseUnreachableError as error:
            self.say("release failed", "warning", worker=orders.worker, reason=str(error))
            return
        if freed is not None:
            self.say("worker lost", "warning", worker=orders.worker, how=worker.status, mode=orders.mode.name)
        elif worker.returncode and not self._terms and not self.database.run("find_worker", worker=orders.worker):
            self._miss(orders, worker.status)

    async def _clear(self) -> None:
        for worker in self.workers:
            if worker.returncode is None:
                await worker.end(self.grace)
        self.launcher.end_strays([])
        self.progress.clear()

    async def _hear_signals(self) -> None:
        with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as received:
            if self.told:  # before anybody listened
                os.kill(os.getpid(), self.told)
            async for number in received:
                self.signal_number = int(number)
                self.stop(INTERRUPTED)

    def stop(self, why: str) -> None:
        """Pass a stop on: once, workers claim no more; twice, they give back what they have not started."""
        if self.ended in (NORMAL, INTERRUPTED) or why == FENCED:
            self.ended = why
        self._terms += 1
        self._termed_at = time.monotonic()
        for worker in self.workers:
            worker.terminate()

    async def _renew(self) -> None:
        while True:
            await anyio.sleep(self.fire_lease / 3)
            try:
                if not await run_sync(self._renew_once):
                    self.say("fenced", "warning", reason="this fire was closed by somebody else")
                    self.stop(FENCED)
            except DatabaseUnreachableError as error:
                self.say("database unreachable", "warning", reason=str(error))

    def _renew_once(self) -> bool:
        return bool(self.database.run("renew_fire", fire=self.fire, closer=None, lease=self.fire_lease))

    async def _tick(self) -> None:
        while True:
            await anyio.sleep(1.0)
            for name in await run_sync(self._tick_once):
                for worker in self.workers:
                    if worker.orders.worker == name and worker.returncode is None:
                        self.say("lease over", "warning", worker=name, mode=worker.orders.mode.name)
                        await worker.end(0.0)

    def _tick_once(self) -> list[str]:
        """Promote, show, and look who is frozen: the workers whose lease is over."""
        try:
            self.database.run("promote_due", limit=1000)
            self.progress.tick()
            lapsed = [one.worker for one in living_workers(self.database, self.fire) if one.lapsed]
            return lapsed if lapsed and leases_are_judged(self.database, self.worker_lease) else []
        except DatabaseUnreachableError:
            return []

    async def _enforce(self, started: float) -> None:
        """The fire's deadline: TERM, after the grace TERM again, then the whole tree by force."""
        while True:
            await anyio.sleep(0.2)
            now = time.monotonic()
            if self.fire_deadline is not None and now - started > self.fire_deadline and not self._terms:
                self.stop(DEADLINE)
            if self._terms == 1 and now - self._termed_at > self.grace:
                self.stop(self.ended)
            if self._terms and now - self._termed_at > self.grace + _KILL_AFTER_SECONDS:
                await self._clear()
