"""The keeper: registers, claims, feeds its runner, settles what comes back, and leaves when a limit says so.

    python -P -m stoker.worker.keeper        (its orders are one JSON line on standard input, which then stays open)

The end of standard input means that the orchestrator is gone. SIGTERM once: claim no more, finish within the grace.
Twice: end the runner and give back what it has not started.
"""

import contextlib
import os
import random
import resource
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import anyio
from anyio.to_thread import run_sync

from stoker.hygiene.identity import mine
from stoker.hygiene.process import become_subreaper, end_strays
from stoker.worker.backoff import Backoff
from stoker.worker.book import FAILED, RETRY, UNKNOWN, Book, Claim, Entry
from stoker.worker.command import CommandPen
from stoker.worker.journal import Journal
from stoker.worker.orders import Orders
from stoker.worker.pace import Pace
from stoker.worker.pen import Pen

if TYPE_CHECKING:
    from stoker.worker.desk import Answer, Desk, Settlement, Want

Result = TypeVar("Result")

_TICK_SECONDS = 0.1
_SETTLE_WITHIN_SECONDS = 0.5
_DRY_SECONDS = 0.1
_KILLS = {"clock": "wall clock", "stopped": "stopped", "orphaned": "stopped", "fenced": "fenced"}


def main() -> None:
    """Read the orders, work, leave."""
    orders = Orders.from_json(_read_line(0))
    become_subreaper()
    anyio.run(_live, orders)


async def _live(orders: Orders) -> None:
    await Keeper(orders).live()


class Keeper:
    """One worker's life. ``stopping`` is the reason why it claims no more; empty while it does."""

    def __init__(self, orders: Orders) -> None:
        self.orders = orders
        self.journal = Journal(worker=orders.worker, fire=orders.fire, mode=orders.mode.name)
        self.book = Book()
        self.pace = Pace(orders.batch_time, orders.batch_limit, orders.mode.expected_seconds)
        pen = CommandPen if orders.mode.command else Pen
        self.pen: Pen | CommandPen = pen(orders, _environment(orders), self.book, self._wake)
        self.stopping = ""
        self.handled = 0
        self._backoff = Backoff(orders.mode.backoff_base, orders.mode.backoff_factor, orders.mode.backoff_cap)
        self._tally: Counter[str] = Counter()
        self._event = anyio.Event()
        self._born = time.monotonic()
        self._stopped_at = 0.0
        self._killing = ""
        self._dry_until = 0.0
        self._desk: Desk | None = None

    async def live(self) -> None:
        """Start the runner, and while it imports the handler register with the database; work; leave."""
        self.pen.start()
        async with anyio.create_task_group() as self._group:
            self._group.start_soon(self.pen.attend)
            self._group.start_soon(self._hear_signals)
            self._group.start_soon(self._watch_parent)
            if await self._register():
                self._group.start_soon(self._renew)
                self._group.start_soon(self._enforce)
                await self._work()
            else:
                self._stop("fenced")
            await self._leave()
            self._group.cancel_scope.cancel()

    async def _register(self) -> bool:
        from stoker.sql.database import Database
        from stoker.worker.desk import Desk

        self._desk = Desk(self.orders, Database(self.orders.target, application="stoker worker"))
        return await self._insist(lambda: self.desk.register(asdict(mine())))

    @property
    def desk(self) -> "Desk":
        """The dealings with the database, once registered."""
        if self._desk is None:
            raise RuntimeError("the keeper has no desk before it registers")
        return self._desk

    async def _work(self) -> None:
        while not (self.pen.ready or self.pen.broken or self.pen.dead or self.stopping):
            await self._pause()
        while True:
            self._look_after_runner()
            self._collect()
            settlements, want = self._due(), self._want()
            if settlements or want:
                self._digest(settlements, want, await self._visit(settlements, want))
            await self._feed()
            if self.book.claims:
                if not (self._due() or self.pen.dead):
                    await self._pause()
            elif self.stopping or not await self._more_comes():
                return

    def _look_after_runner(self) -> None:
        """Bury a dead runner, charge the task it was running, and start another if that is still allowed."""
        if self.pen.broken:
            self._stop("broken")
            return
        if not self.pen.dead or not self.pen.exists:
            return
        death = self.pen.bury()
        self._count(death.over)
        self.journal.say("runner ended", "warning", how=death.how, task=death.entry.id if death.entry else None)
        if death.entry:
            self._charge(death.entry, death.how)
        self._killing = ""
        if self.pen.starts > self.orders.max_respawns:
            self._stop("respawns")
        elif not self.stopping:
            self.pen.start()
            self._group.start_soon(self.pen.attend)

    def _charge(self, entry: Entry, how: str) -> None:
        kind = self._killing or "worker lost"
        text = {"timeout": f"ran longer than {self.orders.mode.timeout} s"}.get(kind, f"{kind} ({how})")
        entry.verdict, entry.error_kind, entry.error = FAILED, kind, text
        self._judge(entry)
        self.handled += 1

    def _judge(self, entry: Entry) -> None:
        """Decide what a failed attempt makes of its task: failed, tried again, or, for a side effect, unknown."""
        if entry.is_permanent:
            return
        if self.orders.mode.side_effect and not entry.is_retriable:
            entry.verdict = UNKNOWN
        elif entry.attempt < entry.max_attempts:
            entry.verdict, entry.delay = RETRY, self._backoff.jittered(entry.attempt)

    def _collect(self) -> None:
        self._count(self.pen.harvest())

    def _count(self, over: list[Entry]) -> None:
        """Tasks that are over: judge the failed ones, and learn from all."""
        for entry in over:
            if entry.verdict == FAILED:
                self._judge(entry)
        self.handled += len(over)
        self.pace.learn(len(over), sum(e.mean for e in over), sum(len(e.payload) for e in over))

    def _due(self) -> "list[Settlement]":
        """What to settle now: claims that are over, and parts of others that have waited for half a second."""
        from stoker.worker.desk import Settlement

        now, found = time.monotonic(), []
        for claim in self.book.claims:
            if claim.is_over:
                found.append(Settlement(claim, claim.entries))
            elif claim.is_fed and now - claim.touched_at > _SETTLE_WITHIN_SECONDS:
                over = [entry for entry in claim.entries if entry.verdict]
                if over:
                    found.append(Settlement(claim, over, left=[e for e in claim.entries if not e.verdict]))
        return found

    def _want(self) -> "Want | None":
        """The next claim, if there is room for one: one batch with the runner, and one ahead of it when they are short."""
        from stoker.worker.desk import new_want

        running = [claim for claim in self.book.claims if not claim.is_over]
        alone = self.orders.mode.side_effect
        cap = self.orders.task_cap
        room = (
            self.orders.batch_limit
            if cap is None
            else cap - self.handled - sum(not entry.verdict for claim in running for entry in claim.entries)
        )
        if room <= 0 and not running:
            self._stop("cap")
        if self.stopping or not self.pen.ready or self.pen.dead or room <= 0 or len(running) > 1:
            return None
        if running and (alone or self.pace.batch == 1 or time.monotonic() < self._dry_until):
            return None
        self.pace.is_due_for_rewind(time.monotonic())
        return new_want(self.pace, room, self.orders.mode.version, ahead=bool(running), alone=alone)

    async def _visit(self, settlements: "list[Settlement]", want: "Want | None") -> "Answer":
        tally = self._tally + Counter(e.label for s in settlements for e in s.entries if e.label is not None)
        answer = await self._insist(lambda: self.desk.visit(settlements, want, tally))
        self._tally = tally
        return answer

    def _digest(self, settlements: "list[Settlement]", want: "Want | None", answer: "Answer") -> None:
        for settlement in settlements:
            self._close(settlement)
        if answer.stale:
            self.journal.say("stale settlement", "warning", claims=len(answer.stale))
            self._stop("fenced")
        if want is None:
            return
        if answer.fenced:
            self._stop("fenced")
        found = len(answer.claim.entries) if answer.claim else 0
        self.pace.saw(answer.spans, found, want.batch, answer.last)
        if answer.claim:
            self.book.claims.append(answer.claim)
        if found < want.batch:
            self._dry_until = time.monotonic() + _DRY_SECONDS

    def _close(self, settlement: "Settlement") -> None:
        claim = settlement.claim
        if settlement.left:
            claim.entries = list(settlement.left)
            claim.step += 1
            claim.touched_at = time.monotonic()
        else:
            self.book.claims.remove(claim)

    async def _feed(self) -> None:
        for claim in list(self.book.claims):
            if claim.is_fed or claim.is_over or self.pen.dead or not self.pen.ready or self._killing:
                continue
            if not claim.started:
                if self.book.fed:
                    return
                if not await self._insist(partial(self.desk.start, claim)):
                    self._stop("fenced")
                    return
            if not self.handled and not self.book.fed:
                self._group.start_soon(self._insist, self.desk.say_first_task)
            self._group.start_soon(self.pen.feed, *self.book.feed(claim, time.monotonic()))

    async def _more_comes(self) -> bool:
        """Nothing is held and the last claim was empty: is there more? An empty claim is not an empty queue."""
        if not self.pen.ready or self.pen.dead:
            await self._pause()
            return True
        any_ready, due_in = await self._insist(self.desk.look)
        if any_ready:
            await anyio.sleep(random.uniform(0.001, 0.02))  # noqa: S311 - jitter is no secret
            return True
        if due_in is not None and due_in <= self.orders.linger:
            await anyio.sleep(min(max(due_in, 0.0) + 0.01, 0.5))
            await self._insist(self.desk.promote)
            return True
        self._stop("empty")
        return False

    async def _pause(self) -> None:
        with anyio.move_on_after(_TICK_SECONDS):
            await self._event.wait()
        self._event = anyio.Event()

    def _wake(self) -> None:
        self._event.set()

    def _stop(self, reason: str) -> None:
        """Claim no more; the first reason stands, except that being fenced overrules every other."""
        if not self.stopping:
            self._stopped_at = time.monotonic()
        if not self.stopping or reason == "fenced":
            self.stopping = reason
        self._wake()

    async def _renew(self) -> None:
        while True:
            await anyio.sleep(self.orders.renew_every)
            if not await self._insist(self.desk.renew):
                self._stop("fenced")
            else:
                await self._insist(self.desk.promote)

    async def _enforce(self) -> None:
        """Every tenth of a second: the task's timeout, the wall clock, the grace after a stop."""
        timeout, clock, grace = self.orders.mode.timeout, self.orders.wall_clock, self.orders.grace
        while True:
            await anyio.sleep(_TICK_SECONDS)
            age = time.monotonic() - self._born
            if clock is not None and age > clock:
                self._stop("clock")
            at = self.pen.running()
            if at and timeout is not None and at[1] > timeout:
                self._kill("timeout")
            if self.stopping in _KILLS and time.monotonic() - self._stopped_at > (0.0 if self.stopping == "fenced" else grace):
                self._kill(_KILLS[self.stopping])

    def _kill(self, kind: str) -> None:
        if not self._killing and self.pen.exists and not self.pen.dead:
            self._killing = kind
            self._group.start_soon(self.pen.end, min(self.orders.grace, 5.0))

    async def _hear_signals(self) -> None:
        with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as received:
            async for _ in received:
                if self.stopping:
                    self._stopped_at = -self.orders.grace
                    self._kill("stopped")
                self._stop("stopped")

    async def _watch_parent(self) -> None:
        while True:
            await anyio.wait_readable(0)
            if not os.read(0, 4096):
                self._stop("orphaned")
                return

    async def _insist(self, work: Callable[[], Result]) -> Result:
        """Do ``work`` in a thread, again and again while the database is away; die when the last limit is over."""
        from stoker.sql.database import DatabaseUnreachableError

        while True:
            try:
                return await run_sync(work)
            except DatabaseUnreachableError as error:
                self.journal.say("database unreachable", "warning", reason=str(error))
                if self._is_out_of_time():
                    await self._abandon()
                await anyio.sleep(random.uniform(0.1, 1.0))  # noqa: S311 - jitter is no secret

    def _is_out_of_time(self) -> bool:
        clock = self.orders.wall_clock
        past_clock = clock is not None and time.monotonic() - self._born > clock + self.orders.grace
        return past_clock or bool(self.stopping and time.monotonic() - self._stopped_at > self.orders.grace)

    async def _abandon(self) -> None:
        """Leave without a word: the claims are released by hygiene."""
        await self.pen.end(1.0)
        end_strays()
        os._exit(75)

    async def _leave(self) -> None:
        """End the runner and everything under it; settle what has a verdict, give back the rest; say farewell."""
        from stoker.worker.desk import Settlement

        await self.pen.retire(self.orders.grace)
        while self.pen.exists and not self.pen.dead:
            await self._pause()
        if self.pen.exists:
            death = self.pen.bury()
            self._count(death.over)
            if death.entry:
                self._charge(death.entry, death.how)
        rest = [_parting(claim, Settlement) for claim in self.book.claims]
        if rest:
            self._digest(rest, None, await self._visit(rest, None))
        end_strays()
        own, below = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
        facts = {
            "status": self.pen.broken[:300] if self.pen.broken else None,
            "respawns": max(self.pen.starts - 1, 0),
            "peak_memory": max(own.ru_maxrss, below.ru_maxrss) * 1024,
            "cpu": own.ru_utime + own.ru_stime + below.ru_utime + below.ru_stime,
        }
        await self._insist(lambda: self.desk.leave(self.stopping, **facts))
        self.journal.say("worker left", reason=self.stopping, handled=self.handled)


def _parting(claim: Claim, settlement: "type[Settlement]") -> "Settlement":
    over = [entry for entry in claim.entries if entry.verdict]
    return settlement(claim, over, free=[entry for entry in claim.entries if not entry.verdict])


def _environment(orders: Orders) -> dict[str, str]:
    """What a runner gets: what its mode lists, and who it is. No database credentials."""
    return {
        **(orders.mode.environment or {}),
        "STOKER_WORKER": orders.worker,
        "STOKER_INSTALLATION": orders.installation,
        "STOKER_FIRE": str(orders.fire),
        "STOKER_MODE": orders.mode.name,
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
    with contextlib.suppress(KeyboardInterrupt):
        main()
    sys.exit(0)
