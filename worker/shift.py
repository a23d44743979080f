"""A keeper's work: claim, feed, collect, settle, until a limit or an empty queue says that it is over."""

import random
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

import anyio
from anyio.abc import TaskGroup

from stoker.worker.book import BACK, DONE, Book, Claim
from stoker.worker.command import CommandPen
from stoker.worker.desk import Answer, Desk, Want, new_want
from stoker.worker.journal import Journal
from stoker.worker.limits import BROKEN, CAP, EMPTY, FENCED, RESPAWNS, Limits
from stoker.worker.orders import Orders
from stoker.worker.over import Over
from stoker.worker.pace import Pace
from stoker.worker.pen import Pen
from stoker.worker.settlement import Settlement, settlement, tallied
from stoker.worker.verdict import charge, judge

TICK_SECONDS = 0.1
_SETTLE_WITHIN_SECONDS = 0.5
_DRY_SECONDS = 0.1
_STUCK_SECONDS = 0.5


class Insist(Protocol):
    """Does a piece of database work in a thread, again and again while the database is away."""

    async def __call__(self, work: Callable[[], Any], /) -> Any:
        """The work's result."""


class Bell:
    """Rung whenever there is something to look at."""

    def __init__(self) -> None:
        self._event = anyio.Event()

    def ring(self) -> None:
        """Wake who waits, or the next to wait."""
        self._event.set()

    async def wait(self) -> None:
        """Until it is rung, or for a tick."""
        with anyio.move_on_after(TICK_SECONDS):
            await self._event.wait()
        self._event = anyio.Event()


class Shift:
    """The loop, and what it keeps: the claims, the pace, the tally. ``killed_for`` is why the runner is being ended."""

    def __init__(
        self, orders: Orders, pen: Pen | CommandPen, book: Book, limits: Limits, journal: Journal, bell: Bell, group: TaskGroup
    ) -> None:
        self.killed_for = ""
        self.handled = 0
        self._orders = orders
        self._mode = orders.mode
        self._pen = pen
        self._book = book
        self._limits = limits
        self._journal = journal
        self._bell = bell
        self._group = group
        batch_time = orders.batch_time * orders.mode.concurrency
        self._pace = Pace(batch_time, orders.batch_limit, orders.mode.expected_seconds, orders.payload_limit)
        self._tally: dict[str, int] = {}
        self._dry_until = 0.0
        self._version = orders.mode.version
        self._called_off: set[int] = set()
        self._wants_back = False

    async def work(self, desk: Desk, insist: Insist) -> None:
        """Work until there is a reason to leave; what is still held then is for ``hand_over``."""
        while not (self._pen.ready or self._pen.broken or self._pen.dead or self._limits.reason):
            await self._bell.wait()
        while True:
            self._look_after_runner()
            if self._limits.reason and (self._pen.dead or not self._pen.exists):
                return
            self._count(self._pen.harvest())
            self._see_who_is_called_off()
            self._give_back()
            settlements, want = self._due(), self._want()
            if settlements or want:
                self._digest(settlements, want, await self._visit(desk, insist, settlements, want))
            await self._feed(desk, insist)
            if self._book.claims:
                await (anyio.lowlevel.checkpoint() if self._is_anything_due() or self._pen.dead else self._bell.wait())
            elif self._limits.reason or not await self._more_comes(desk, insist):
                return

    async def hand_over(self, desk: Desk, insist: Insist) -> None:
        """Settle what has a verdict, and give back the rest; the runner is gone."""
        if self._pen.exists:
            self._bury()
        rest = [settlement(claim, give_back=True) for claim in self._book.claims]
        if rest:
            self._digest(rest, None, await self._visit(desk, insist, rest, None))

    def stop(self, reason: str) -> None:
        """Claim no more."""
        self._limits.stop(reason, time.monotonic())
        self._bell.ring()

    def call_off(self, tasks: list[int]) -> None:
        """Somebody wants these tasks called off."""
        self._called_off.update(tasks)
        self._bell.ring()

    def fence(self) -> None:
        """What is held here is another's by now."""
        self.stop(FENCED)

    def _look_after_runner(self) -> None:
        """Bury a dead runner, and start another if that is still allowed."""
        if self._pen.dead and not self._pen.ready and not self._pen.broken:
            self._pen.broken = "the handler's process ended while it was imported"
        if self._pen.broken and not self._limits.reason:
            self._journal.say("worker cannot work", "error", why=self._pen.broken.partition(":")[0][:300])
        if self._pen.broken:
            self.stop(BROKEN)
        if self._pen.broken or not self._pen.dead or not self._pen.exists:
            return
        self._bury()
        if self._pen.starts > self._orders.max_respawns:
            self.stop(RESPAWNS)
        elif not self._limits.reason:
            self._pen.start()
            self._group.start_soon(self._pen.attend)

    def _bury(self) -> None:
        death = self._pen.bury()
        self._count(death.over)
        for entry, seconds in death.running:
            charge(entry, seconds, self.killed_for, death.how, self._mode)
            if entry.verdict == BACK:
                continue
            self.handled += 1
            self._journal.say("runner ended", "warning", how=death.how, task=entry.id, why=self.killed_for or None)
        self.killed_for = ""

    def _count(self, over: Over) -> None:
        """Tasks that are over: judge those that are not done, and learn from all."""
        for entry in over.entries:
            if entry.verdict != DONE:
                judge(entry, self._mode)
        self.handled += over.tasks
        self._pace.learn(over.tasks, over.seconds)

    def _due(self) -> list[Settlement]:
        """What to settle now: claims that are over, and parts of others that have waited for half a second."""
        now = time.monotonic()
        return [settlement(claim) for claim in self._book.claims if self._is_due(claim, now)]

    def _is_anything_due(self) -> bool:
        now = time.monotonic()
        return any(self._is_due(claim, now) for claim in self._book.claims)

    def _is_due(self, claim: Claim, now: float) -> bool:
        waited = claim.is_fed and now - claim.touched_at > _SETTLE_WITHIN_SECONDS
        return claim.is_over or (waited and claim.has_over)

    def _see_who_is_called_off(self) -> None:
        """What runs is told; what is not fed goes back to the queue, which drops it; so does what is fed and not started."""
        self._wants_back = False
        for task in list(self._called_off):
            found = self._book.locate(task)
            if found is None or not found[0].is_open(found[1]):
                self._called_off.discard(task)
                continue
            claim, place = found
            claim.entry(place).is_called_off = True
            if not claim.is_fed:
                claim.give_back(place)
            elif not self._pen.call_off(claim, place):
                self._wants_back = True

    def _give_back(self) -> None:
        """Nothing waits here for a long task while others may be idle: what stands behind one goes back to the queue."""
        if self._pen.stuck() < _STUCK_SECONDS and not self._wants_back:
            return
        unfed = [(claim, place) for claim in self._book.claims if not claim.is_fed for place in range(claim.size)]
        for claim, place in (*self._pen.take_back(), *unfed):
            claim.give_back(place)

    def _want(self) -> Want | None:
        """The next claim, if there is room for one: one batch with the runner, and one ahead of it when they are short."""
        running = [claim for claim in self._book.claims if not claim.is_over]
        tasks = sum(claim.open for claim in running)
        room = self._room(tasks)
        if room <= 0 and not running:
            self.stop(CAP)
        if self._limits.reason or not self._pen.ready or self._pen.dead or room <= 0:
            return None
        alone, now, ahead = self._mode.side_effect, time.monotonic(), tasks >= self._mode.concurrency
        if running and (now < self._dry_until or self._pen.stuck() >= _STUCK_SECONDS):
            return None
        if len(running) > self._mode.concurrency or (ahead and (alone or self._pace.batch == 1 or self._is_enough(tasks))):
            return None
        self._pace.rewind_if_due(now)
        return new_want(self._pace, room, self._version, ahead=ahead, alone=alone)

    def _is_enough(self, held: int) -> bool:
        """Whether a batch waits already."""
        return held - self._mode.concurrency >= self._pace.batch

    def _room(self, held: int) -> int:
        """How many more tasks the cap allows, where ``held`` are claimed and not over."""
        if self._orders.task_cap is None:
            return self._orders.batch_limit
        return self._orders.task_cap - self.handled - held

    async def _visit(self, desk: Desk, insist: Insist, settlements: list[Settlement], want: Want | None) -> Answer:
        tally = tallied(self._tally, (e.label for s in settlements for e in s.entries if e.label is not None))
        answer: Answer = await insist(lambda: desk.visit(settlements, want, tally))
        self._tally = tally
        return answer

    def _digest(self, settlements: list[Settlement], want: Want | None, answer: Answer) -> None:
        for settled in settlements:
            self._close(settled)
        if answer.stale:
            self._journal.say("stale settlement", "warning", claims=len(answer.stale))
        if answer.stale or answer.fenced:
            self.stop(FENCED)
        if want is None:
            return
        found = answer.claim
        tasks = found.size if found else 0
        self._pace.saw(
            rows=len(found.spans) if found else 0,
            tasks=tasks,
            asked=want.batch,
            last=answer.last,
            size=found.payload_size if found else 0,
        )
        if found:
            self._book.claims.append(found)
        if tasks < want.batch:
            self._dry_until = time.monotonic() + _DRY_SECONDS

    def _close(self, settled: Settlement) -> None:
        claim = settled.claim
        if settled.left:
            claim.settle()
            claim.touched_at = time.monotonic()
        else:
            self._book.claims.remove(claim)

    async def _feed(self, desk: Desk, insist: Insist) -> None:
        """Hand claims to the runner. One that was made ahead and holds a single task starts only when nothing else runs."""
        for claim in list(self._book.claims):
            if claim.is_fed or claim.is_over or self._pen.dead or not self._pen.ready or self.killed_for:
                continue
            if not claim.started:
                if self._book.open >= self._mode.concurrency:
                    return
                if not await insist(partial(desk.start, claim)):
                    self.stop(FENCED)
                    return
            if not self.handled and not self._book.fed:
                self._group.start_soon(insist, desk.say_first_task)
            self._book.feed(claim, time.monotonic())
            self._group.start_soon(self._pen.feed, claim)

    async def _more_comes(self, desk: Desk, insist: Insist) -> bool:
        """Nothing is held and the last claim was empty: is there more? An empty claim is not an empty queue."""
        if not self._pen.ready or self._pen.dead:
            await self._bell.wait()
            return True
        version, due_in = await insist(desk.look)
        if version is not None:
            self._version = version
            await anyio.sleep(random.uniform(0.001, 0.02))  # noqa: S311 - jitter is no secret
            return True
        if due_in is not None and due_in <= self._orders.linger:
            await anyio.sleep(min(max(due_in, 0.0) + 0.01, 0.5))
            await insist(desk.promote)
            return True
        self.stop(EMPTY)
        return False
