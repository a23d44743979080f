"""The runner a keeper keeps: start it, feed it, hear it, end it, and know what it was doing when it died."""

import json
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import anyio

from stoker.hygiene.process import Child, describe_exit, end_strays, end_tree, spawn
from stoker.worker.book import FAILED, Book, Claim, Entry
from stoker.worker.capture import Ear
from stoker.worker.frames import frames
from stoker.worker.notices import Notices
from stoker.worker.orders import Orders
from stoker.worker.over import Death, Over, sum_up
from stoker.worker.said import note
from stoker.worker.slate import Slate, create
from stoker.worker.wire import Wire

_SEEN_SECONDS = 0.05


@dataclass(slots=True)
class Pen:
    """One runner at a time. ``wake`` is called whenever there is something to look at."""

    orders: Orders
    environment: dict[str, str]
    book: Book
    wake: Callable[[], None]
    notices: Notices = field(default_factory=Notices)
    starts: int = 0
    ready: bool = False
    broken: str | None = None
    dead: bool = False
    _child: Child | None = None
    _slate: Slate | None = None
    _ear: Ear | None = None
    _wire: Wire | None = None
    _busy_seconds: float = 0.0
    _heard: list[tuple[int, float | None]] = field(default_factory=list)
    _taken_after: int = 0
    _taken_at: float = 0.0
    _gone: anyio.Event = field(default_factory=anyio.Event)
    _writing: anyio.Lock = field(default_factory=anyio.Lock)

    def start(self) -> None:
        """Start a runner; ``ready`` or ``broken`` is set when it has looked at its handler."""
        self.ready, self.broken, self.dead, self._taken_after = False, None, False, 0
        self._busy_seconds, self._gone, self._heard = 0.0, anyio.Event(), []
        nonce = secrets.token_hex(8)
        page = create()
        slate = self._slate = Slate(page)
        ear = self._ear = Ear(nonce, self.orders.output_limit, lambda: _current(slate))
        wire = self._wire = Wire(self._note, ear.hear)
        feed, messages, output, answers = wire.open()
        wire.greet((json.dumps(self.orders.hello(nonce)) + "\n").encode())
        try:
            self._child = spawn(
                [sys.executable, "-P", "-m", "stoker.worker.runner", *map(str, (feed, messages, page, answers))],
                env=self.environment,
                cwd=self.orders.folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                pass_fds=(feed, messages, page, answers),
                die_with_parent=True,
            )
        finally:
            for descriptor in (page, feed, messages, output, answers):
                os.close(descriptor)
        self.starts += 1

    async def attend(self) -> None:
        """Hear one runner until it is gone, and everything under it."""
        child, wire = self._child, self._wire
        if child is None or wire is None:
            raise RuntimeError("no runner was started")
        async with anyio.create_task_group() as group:
            group.start_soon(wire.listen)
            await child.wait()
            group.cancel_scope.cancel()
        end_strays()
        wire.drain()
        self.dead = True
        self._gone.set()
        self.wake()

    async def feed(self, claim: Claim) -> None:
        """Hand over a claim that the book has numbered; waits while the pipe is full, gives up when the runner is gone.

        In the order of the calls.
        """
        wire, runner = self._wire, self.starts
        async with self._writing:
            for frame in frames(claim):
                if wire is not None:
                    await wire.write(frame, lambda: not self.dead and self.starts == runner)

    async def answer(self, runner: int, line: bytes) -> None:
        """Answer a question of one runner; when it is gone, nobody is answered."""
        if self._wire is not None and self.starts == runner:
            await self._wire.answer(line, lambda: not self.dead and self.starts == runner)

    def call_off(self, claim: Claim, place: int) -> bool:
        """Tell the runner that a task it was fed is called off; False when it does not run."""
        slate, pairs = self._slate, self.orders.mode.concurrency
        return slate is not None and slate.call_off(claim.base + place, pairs)

    def harvest(self) -> Over:
        """Note in the book what the runner has finished, with times and output.

        Here alone verdicts come about: what a settlement was made of must not change while it is on its way.
        """
        if self._slate is None or self._ear is None or self._wire is None or self.is_garbled():
            return Over()
        finished, busy, ended = self._slate.finished, self._slate.busy_seconds, self._slate.read_ended()
        self._wire.drain()
        over = Over()
        heard, self._heard = [*ended, *self._heard], []
        for number, seconds in heard:  # before what is counted: there a task that was passed over looks like all others
            if found := self.book.find(number):
                over.add(self._end(*found, number, seconds))
        for number in self._ear.numbers():
            if (found := self.book.find(number)) is None:
                self._ear.take(number)
            elif number <= finished:
                claim, place = found
                claim.entry(place).output = self._ear.take(number)
        took, self._busy_seconds = busy - self._busy_seconds, busy
        over.add(sum_up(self.book.finish(finished), took))
        self.book.forget()
        return over

    def running(self) -> float | None:
        """For how many seconds the task that runs longest has been running; None when none does."""
        seconds = self._seconds()
        return seconds[0] if seconds else None

    def stuck(self) -> float:
        """For how many seconds no task could be started, because others ran; 0 when one can be."""
        seconds = self._seconds()
        return seconds[-1] if len(seconds) == self.orders.mode.concurrency else 0.0

    def is_silent(self) -> bool:
        """Whether it was fed tasks that are neither over nor running: for a moment every runner is."""
        if self._slate is None or self.dead or self.running() is not None:
            return False
        told = len(self._heard) + self._slate.ended
        return self.book.open > told and self._slate.finished < self.book.next_number - 1

    def is_garbled(self) -> bool:
        """Whether the page says what cannot be: then nothing of it, or of the pipes, is believed any more."""
        return self._slate is not None and not self._slate.is_sound(self.book.next_number - 1)

    def take_back(self) -> list[tuple[Claim, int]]:
        """Forbid the runner to start what it was fed and has not started; what it certainly will not start any more.

        A task may be just starting while it is forbidden. So this is said in one call, and what it came to is seen in a
        later one, when the runner has long seen it. What the runner itself passes over it says.
        """
        slate = self._slate
        started = max((number for number, _ in self._running()), default=0)
        if slate is None or not started:
            return []
        if self._taken_after != started:
            slate.take(started + 1, self.book.next_number - 1)
            self._taken_after, self._taken_at = started, time.monotonic()
        if time.monotonic() - self._taken_at < _SEEN_SECONDS:
            return []
        numbers = range(started + 1, self.book.next_number)
        return [found for number in numbers if (found := self.book.find(number))]

    def _running(self) -> list[tuple[int, int]]:
        """Numbers and starts (nanoseconds) of the tasks that run, the longest running first."""
        if self._slate is None or self.dead or self.is_garbled():
            return []
        return [at for at in self._slate.running(self.orders.mode.concurrency) if self._is_open(at[0])]

    def _is_open(self, number: int) -> bool:
        found = self.book.find(number)
        return found is not None and found[0].is_open(found[1])

    def _seconds(self) -> list[float]:
        now = time.monotonic_ns()
        return [(now - started_at) / 1e9 for _, started_at in self._running()]

    async def retire(self, grace_seconds: float) -> None:
        """Tell an idle runner that there is no more, give it time to leave by itself, then end it and all below it."""
        if self._child is None:
            return
        if self._wire is not None:
            self._wire.hang_up()
        with anyio.move_on_after(grace_seconds if self.running() is None else 0):
            await self._gone.wait()
        await end_tree(self._child, grace_seconds=grace_seconds)

    async def end(self, grace_seconds: float) -> None:
        """End the runner and the whole tree under it: TERM, grace, KILL."""
        if self._child is not None:
            await end_tree(self._child, grace_seconds=grace_seconds)

    def bury(self) -> Death:
        """What a dead runner leaves: its verdicts are in the book, the rest of what it was fed is unfed again."""
        how = describe_exit(self._child.returncode if self._child else None)
        over, victims = self.harvest(), []
        now = time.monotonic_ns()
        running = self._slate.running(self.orders.mode.concurrency) if self._slate else []
        for number, started_at in [(self._first_open(), now)] if self.is_garbled() else running:
            found = self.book.find(number)
            if found is None or not found[0].is_open(found[1]):
                continue
            claim, place = found
            entry = claim.entry(place)
            entry.output = self._ear.take(number) if self._ear else None
            if entry.said is None:
                entry.said = FAILED
                victims.append((entry, (now - started_at) / 1e9))
            else:
                over.add(Over(1, 0.0, [entry]))
            claim.end(place)
        self.book.take_back()
        self.close()
        return Death(how, victims, over)

    def _first_open(self) -> int:
        open_ = (claim.base + place for claim in self.book.fed for place in range(claim.size) if claim.is_open(place))
        return next(open_, 0)

    def close(self) -> None:
        """Let the pipes and the page go."""
        if self._wire is not None:
            self._wire.close()
        if self._slate is not None:
            self._slate.close()
        self._slate = self._child = self._ear = self._wire = None

    @property
    def exists(self) -> bool:
        """Whether a runner was started and not buried."""
        return self._child is not None

    def _note(self, message: list[Any]) -> None:
        """Take what the runner says. Who waits is woken when there is something to do now, not for every task."""
        match message:
            case ["done" | "failed" | "ended", int(number), *_]:
                if entry := self._entry(number):
                    note(entry, message)
            case ["steps" | "step" | "progress", int(number), *_]:
                self.notices.hear(message, self.book.find(number), self.starts)
            case ["over", int(number), float(seconds)]:
                self._heard.append((number, seconds))
                if self.book.open - len(self._heard) < 2 * self.orders.mode.concurrency:
                    self.wake()
            case ["back", int(number)]:
                self._heard.append((number, None))
            case ["end"]:
                self.wake()
            case ["ready"]:
                self.ready = True
                self.wake()
            case ["broken", text]:
                self.broken = text
                self.wake()
            case _:
                return

    def _end(self, claim: Claim, place: int, number: int, seconds: float | None) -> Over:
        """A task is over that the runner spoke of by itself: it ran beside others, or, without ``seconds``, was passed over."""
        if seconds is None:
            claim.give_back(place)
            return Over()
        entry = claim.entry(place)
        entry.output = self._ear.take(number) if self._ear else None
        claim.end(place)
        claim.busy_seconds += seconds if entry.is_plain else 0.0
        return Over(1, seconds, [entry])

    def _entry(self, number: int) -> Entry | None:
        found = self.book.find(number)
        return found[0].entry(found[1]) if found else None


def _current(slate: Slate) -> int:
    """The task that printed what no mark claims: the one that runs, or the last."""
    at = slate.running()
    return at[0][0] if at else slate.finished
