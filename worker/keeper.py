"""The keeper's life: it starts its runner, registers, works, and leaves when a limit says so.

    python -P -m stoker.worker.keeper        (its orders are one JSON line on standard input, which then stays open)

The end of standard input means that the orchestrator is gone. SIGTERM once: claim no more, finish within the grace.
Twice: end the runner and give back what it has not started.
"""

import os
import random
import resource
import signal
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import anyio
from anyio.to_thread import run_sync

from stoker.hygiene.identity import mine
from stoker.hygiene.process import become_subreaper, end_strays
from stoker.worker.book import Book
from stoker.worker.clerk import Clerk
from stoker.worker.command import CommandPen
from stoker.worker.journal import Journal
from stoker.worker.limits import FENCED, GARBLED, ORPHANED, STOPPED, Limits
from stoker.worker.orders import Orders
from stoker.worker.pen import Pen

if TYPE_CHECKING:
    from stoker.worker.desk import Desk
    from stoker.worker.shift import Shift

_KILL_GRACE_SECONDS = 5.0
_UNREACHABLE = 75


def main() -> None:
    """Read the orders, work, leave."""
    orders = Orders.from_json(_read_line(0))
    become_subreaper()
    anyio.run(_live, orders)


async def _live(orders: Orders) -> None:
    keeper = Keeper(orders)
    async with anyio.create_task_group() as group:
        await keeper.live(group)
        group.cancel_scope.cancel()


class Keeper:
    """One worker's life. The runner is started before anything of the database is imported: both take their time."""

    def __init__(self, orders: Orders) -> None:
        self._orders = orders
        self._limits = Limits(time.monotonic(), orders.mode.kill_after, orders.wall_clock, orders.grace)
        self._journal = Journal(worker=orders.worker, fire=orders.fire, mode=orders.mode.name)
        self._book = Book()
        self._ring: Callable[[], None] = lambda: None
        kind = CommandPen if orders.mode.command else Pen
        self._pen: Pen | CommandPen = kind(orders, _environment(orders), self._book, lambda: self._ring())

    async def live(self, group: anyio.abc.TaskGroup) -> None:
        """Start the runner; register; work; leave."""
        self._pen.start()
        group.start_soon(self._pen.attend)
        from stoker.worker.desk import open_desk
        from stoker.worker.shift import Bell, Shift

        bell = Bell()
        self._ring = bell.ring
        desk = open_desk(self._orders)
        shift = Shift(self._orders, self._pen, self._book, self._limits, self._journal, bell, group)
        group.start_soon(self._hear_signals, shift, group)
        group.start_soon(self._watch_parent, shift)
        if await self._insist(lambda: desk.register(asdict(mine()))):
            group.start_soon(self._renew, desk, shift)
            group.start_soon(self._enforce, shift, group)
            clerk = Clerk(self._pen.notices, self._book, desk, self._insist, shift, self._pen.answer)
            group.start_soon(clerk.answer)
            group.start_soon(clerk.look)
            await shift.work(desk, self._insist)
        else:
            shift.stop(FENCED)
        await self._leave(desk, shift, bell)

    async def _leave(self, desk: "Desk", shift: "Shift", bell: Any) -> None:
        """End the runner and everything under it, hand over what is held, and say farewell."""
        await self._pen.retire(self._orders.grace)
        while self._pen.exists and not self._pen.dead:
            await bell.wait()
        broken = self._pen.broken
        await shift.hand_over(desk, self._insist)
        end_strays()
        facts = {**_usage(), "status": broken[:300] if broken else None, "respawns": max(self._pen.starts - 1, 0)}
        await self._insist(lambda: desk.leave(self._limits.reason, **facts))
        self._journal.say("worker left", "debug", reason=self._limits.reason, handled=shift.handled)

    async def _renew(self, desk: "Desk", shift: "Shift") -> None:
        while True:
            await anyio.sleep(self._orders.renew_every)
            if await self._insist(desk.renew):
                await self._insist(desk.promote)
            else:
                shift.stop(FENCED)

    async def _enforce(self, shift: "Shift", group: anyio.abc.TaskGroup) -> None:
        """Every tenth of a second: the task's timeout, the wall clock, the grace after a stop, a runner that does nothing."""
        while True:
            await anyio.sleep(0.1)
            kind = self._limits.kill(self._pen.running(), time.monotonic(), is_silent=self._pen.is_silent())
            if kind := kind or (GARBLED if self._pen.is_garbled() else None):
                self._kill(kind, shift, group)

    def _kill(self, kind: str, shift: "Shift", group: anyio.abc.TaskGroup) -> None:
        if not shift.killed_for and self._pen.exists and not self._pen.dead:
            shift.killed_for = kind
            group.start_soon(self._pen.end, min(self._orders.grace, _KILL_GRACE_SECONDS))

    async def _hear_signals(self, shift: "Shift", group: anyio.abc.TaskGroup) -> None:
        with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as received:
            async for _ in received:
                if self._limits.reason:
                    self._limits.hurry()
                    self._kill(STOPPED, shift, group)
                shift.stop(STOPPED)

    async def _watch_parent(self, shift: "Shift") -> None:
        while True:
            await anyio.wait_readable(0)
            if not os.read(0, 4096):
                shift.stop(ORPHANED)
                return

    async def _insist(self, work: Callable[[], Any], /) -> Any:
        """Do ``work`` in a thread, again and again while the database is away; die when the last limit is over."""
        from stoker.sql.database import DatabaseUnreachableError

        while True:
            try:
                return await run_sync(work)
            except DatabaseUnreachableError as error:
                self._journal.say("database unreachable", "warning", reason=str(error))
                if self._limits.is_over(time.monotonic()):
                    await self._abandon()
                await anyio.sleep(random.uniform(0.1, 1.0))  # noqa: S311 - jitter is no secret

    async def _abandon(self) -> None:
        """Leave without a word: the claims are released by hygiene."""
        await self._pen.end(1.0)
        end_strays()
        os._exit(_UNREACHABLE)


def _environment(orders: Orders) -> dict[str, str]:
    """What a runner gets: what its mode lists, and who it is. No database credentials."""
    return {
        **(orders.mode.environment or {}),
        "STOKER_WORKER": orders.worker,
        "STOKER_INSTALLATION": orders.installation,
        "STOKER_FIRE": str(orders.fire),
        "STOKER_MODE": orders.mode.name,
    }


def _usage() -> dict[str, Any]:
    """Peak memory in bytes and CPU seconds, of this process and of the runners below it."""
    own, below = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "peak_memory": max(own.ru_maxrss, below.ru_maxrss) * 1024,
        "cpu": own.ru_utime + own.ru_stime + below.ru_utime + below.ru_stime,
    }


def _read_line(descriptor: int) -> str:
    data = bytearray()
    while not data.endswith(b"\n"):
        chunk = os.read(descriptor, 1 << 16)
        if not chunk:
            raise SystemExit("a keeper is started by a launcher, which gives its orders on standard input")
        data += chunk
    return data.decode()


if __name__ == "__main__":
    main()
