"""The runner a keeper keeps: start it, feed it, hear it, end it, and know what it was doing when it died."""

import contextlib
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
from stoker.worker.book import DONE, FAILED, Book, Claim, Entry
from stoker.worker.capture import Ear
from stoker.worker.orders import Orders
from stoker.worker.slate import Slate, create

_CHUNK = 1 << 18
_FRAME_BYTES = 1 << 20
_TIMER_SLACK_SECONDS = 5.0
_SEEN_SECONDS = 0.05


@dataclass(slots=True)
class Over:
    """Tasks that are over: how many, the seconds all of them took, and the entries of those of which more was said."""

    tasks: int = 0
    seconds: float = 0.0
    entries: list[Entry] = field(default_factory=list)

    def add(self, more: "Over") -> None:
        """Count others in."""
        self.tasks += more.tasks
        self.seconds += more.seconds
        self.entries = [*self.entries, *more.entries]


@dataclass(slots=True)
class Death:
    """How a runner ended: "SIGKILL", "exit status 3"; the tasks it was running, with the seconds; what was over till then."""

    how: str
    running: list[tuple[Entry, float]]
    over: Over


@dataclass(slots=True)
class Pen:
    """One runner at a time. ``wake`` is called whenever there is something to look at."""

    orders: Orders
    environment: dict[str, str]
    book: Book
    wake: Callable[[], None]
    starts: int = 0
    ready: bool = False
    broken: str | None = None
    dead: bool = False
    _child: Child | None = None
    _slate: Slate | None = None
    _ear: Ear | None = None
    _feed: int = -1
    _acks: int = -1
    _out: int = -1
    _rest: bytes = b""
    _busy_seconds: float = 0.0
    _ended: Over = field(default_factory=Over)
    _taken_after: int = 0
    _taken_at: float = 0.0
    _gone: anyio.Event = field(default_factory=anyio.Event)
    _writing: anyio.Lock = field(default_factory=anyio.Lock)

    def start(self) -> None:
        """Start a runner; ``ready`` or ``broken`` is set when it has looked at its handler."""
        self.ready, self.broken, self.dead, self._rest, self._taken_after = False, None, False, b"", 0
        self._busy_seconds, self._gone, self._ended = 0.0, anyio.Event(), Over()
        page = create()
        feed_end, self._feed = os.pipe()
        self._acks, acks_end = os.pipe()
        self._out, out_end = os.pipe()
        nonce = secrets.token_hex(8)
        try:
            self._child = spawn(
                [sys.executable, "-P", "-m", "stoker.worker.runner", str(feed_end), str(acks_end), str(page)],
                env=self.environment,
                cwd=self.orders.folder,
                stdin=subprocess.DEVNULL,
                stdout=out_end,
                stderr=out_end,
                pass_fds=(feed_end, acks_end, page),
                die_with_parent=True,
            )
            slate = self._slate = Slate(page)
        finally:
            for descriptor in (page, feed_end, acks_end, out_end):
                os.close(descriptor)
        for descriptor in (self._feed, self._acks, self._out):
            os.set_blocking(descriptor, False)
        self._ear = Ear(nonce, self.orders.output_limit, lambda: _current(slate))
        self.starts += 1
        os.write(self._feed, (json.dumps(self._hello(nonce)) + "\n").encode())

    def _hello(self, nonce: str) -> dict[str, Any]:
        mode = self.orders.mode
        timer = None if mode.timeout is None else mode.timeout + self.orders.grace + _TIMER_SLACK_SECONDS
        return {
            "nonce": nonce,
            "handler": mode.handler,
            "folder": self.orders.folder,
            "mode": mode.name,
            "installation": self.orders.installation,
            "errors": mode.errors,
            "secret_names": sorted(mode.secrets()),
            "label": mode.label,
            "result_limit": self.orders.result_limit,
            "timer_seconds": timer,
            "timeout": mode.timeout,
            "concurrency": mode.concurrency,
        }

    async def attend(self) -> None:
        """Hear one runner until it is gone, and everything under it."""
        child = self._require()
        async with anyio.create_task_group() as group:
            group.start_soon(self._listen, self._acks, self._hear_acks)
            group.start_soon(self._listen, self._out, self._hear_output)
            await child.wait()
            group.cancel_scope.cancel()
        end_strays()
        self._drain()
        self.dead = True
        self._gone.set()
        self.wake()

    async def feed(self, claim: Claim) -> None:
        """Hand over a claim that the book has numbered; waits while the pipe is full, gives up when the runner is gone.

        One frame for as many chunks as make a mebibyte: ``[first number, [[lo, hi, attempt], ...], [places to pass
        over], [payload, ...]]``.
        """
        runner, start, texts = self.starts, 0, []
        over = {*range(claim.passed), *claim.ahead}
        async with self._writing:
            stop, size = 0, 0
            for chunk in claim.chunks:
                stop, size = stop + chunk.tasks, size + len(chunk.payloads)
                texts.append(chunk.payloads)
                if size > _FRAME_BYTES or stop == claim.size:
                    spans = [(lo, hi, spent + 1) for lo, hi, spent in claim.ids([(start, stop)])]
                    skip = [place - start for place in range(start, stop) if place in over] if over else []
                    head = json.dumps([claim.base + start, spans, skip])[:-1]
                    frame = f"{head},[{','.join(texts)}]]".replace("\n", " ").replace("\r", " ")
                    await self._write(runner, (frame + "\n").encode())
                    start, size, texts = stop, 0, []

    def harvest(self) -> Over:
        """Note in the book what the runner has finished, with times and output."""
        if self._slate is None or self._ear is None:
            return Over()
        finished, busy = self._slate.finished, self._slate.busy_seconds
        self._drain()
        for number in self._ear.numbers():
            if number <= finished and (found := self.book.find(number)):
                claim, place = found
                claim.entry(place).output = self._ear.take(number)
        took, self._busy_seconds = busy - self._busy_seconds, busy
        over, self._ended = self._ended, Over()
        over.add(_sum_up(self.book.finish(finished), took))
        return over

    def running(self) -> float | None:
        """For how many seconds the task that runs longest has been running; None when none does."""
        seconds = self._seconds()
        return seconds[0] if seconds else None

    def stuck(self) -> float:
        """For how many seconds no task could be started, because others ran; 0 when one can be."""
        seconds = self._seconds()
        return seconds[-1] if len(seconds) == self.orders.mode.concurrency else 0.0

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
        if self._slate is None or self.dead:
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
        if self._feed >= 0:
            os.close(self._feed)
            self._feed = -1
        with anyio.move_on_after(grace_seconds if self.running() is None else 0):
            await self._gone.wait()
        await end_tree(self._child, grace_seconds=grace_seconds)

    async def end(self, grace_seconds: float) -> None:
        """End the runner and the whole tree under it: TERM, grace, KILL."""
        if self._child is not None:
            await end_tree(self._child, grace_seconds=grace_seconds)

    def bury(self) -> Death:
        """What a dead runner leaves: its verdicts are in the book, the rest of what it was fed is unfed again."""
        child = self._require()
        over, victims = self.harvest(), []
        now = time.monotonic_ns()
        for number, started_at in self._slate.running(self.orders.mode.concurrency) if self._slate else []:
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
                over.tasks, over.entries = over.tasks + 1, [*over.entries, entry]
            claim.end(place)
        self.book.take_back()
        self.close()
        return Death(describe_exit(child.returncode), victims, over)

    def close(self) -> None:
        """Let the pipes and the page go."""
        for descriptor in (self._feed, self._acks, self._out):
            if descriptor >= 0:
                os.close(descriptor)
        self._feed = self._acks = self._out = -1
        if self._slate is not None:
            self._slate.close()
        self._slate = self._child = self._ear = None

    @property
    def exists(self) -> bool:
        """Whether a runner was started and not buried."""
        return self._child is not None

    def _require(self) -> Child:
        if self._child is None:
            raise RuntimeError("no runner was started")
        return self._child

    async def _write(self, runner: int, data: bytes) -> None:
        view = memoryview(data)
        while view and not self.dead and self.starts == runner and self._feed >= 0:
            try:
                view = view[os.write(self._feed, view) :]
            except BlockingIOError:
                with anyio.move_on_after(0.1):
                    await anyio.wait_writable(self._feed)
            except BrokenPipeError:
                return

    async def _listen(self, descriptor: int, hear: Callable[[bytes], None]) -> None:
        while True:
            await anyio.wait_readable(descriptor)
            data = _read(descriptor)
            if data == b"":
                return
            if data:
                hear(data)

    def _drain(self) -> None:
        while self._acks >= 0 and (data := _read(self._acks)):
            self._hear_acks(data)
        self._drain_output()

    def _drain_output(self) -> None:
        while self._out >= 0 and (data := _read(self._out)):
            self._hear_output(data)

    def _hear_output(self, data: bytes) -> None:
        if self._ear is not None:
            self._ear.hear(data)

    def _hear_acks(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            with contextlib.suppress(ValueError):
                self._note(json.loads(line))
        self.wake()

    def _note(self, message: list[Any]) -> None:
        match message:
            case ["done", number, result, label, seconds]:
                if entry := self._entry(number):
                    entry.said, entry.result, entry.label, entry.seconds = DONE, result, label, seconds
            case ["failed", number, kind, text, permanent, seconds]:
                if entry := self._entry(number):
                    entry.said, entry.error_kind, entry.error, entry.seconds = FAILED, kind, text, seconds
                    entry.is_permanent = permanent
            case ["over", number, seconds] if found := self._find(number):
                self._end(*found, number, seconds)
            case ["back", number] if found := self._find(number):
                found[0].give_back(found[1])
            case ["ready"]:
                self.ready = True
            case ["broken", text]:
                self.broken = text
            case _:
                return

    def _end(self, claim: Claim, place: int, number: int, seconds: float) -> None:
        """A task of a runner that runs several at a time is over; its output came before this was said."""
        self._drain_output()
        entry = claim.entry(place)
        entry.output = self._ear.take(number) if self._ear else None
        claim.end(place)
        claim.busy_seconds += seconds if entry.is_plain else 0.0
        self._ended.add(Over(1, seconds, [entry]))

    def _find(self, number: Any) -> tuple[Claim, int] | None:
        return self.book.find(number) if isinstance(number, int) else None

    def _entry(self, number: Any) -> Entry | None:
        found = self._find(number)
        return found[0].entry(found[1]) if found else None


def _sum_up(finished: list[tuple[Claim, int, list[Entry]]], took: float) -> Over:
    """What was finished, in ``took`` seconds: the tasks whose own time was not kept share what the others left of it."""
    over = Over(sum(tasks for _, tasks, _ in finished), max(took, 0.0), [e for _, _, ended in finished for e in ended])
    kept = [entry.seconds for entry in over.entries if entry.seconds is not None]
    share = max(took - sum(kept), 0.0) / max(over.tasks - len(kept), 1)
    for claim, tasks, ended in finished:
        claim.busy_seconds += share * (tasks - sum(entry.seconds is not None for entry in ended))
    return over


def _current(slate: Slate) -> int:
    """The task that printed what no mark claims: the one that runs, or the last."""
    at = slate.running()
    return at[0][0] if at else slate.finished


def _read(descriptor: int) -> bytes | None:
    """What can be read now; b"" at the end, None when there is nothing yet."""
    try:
        return os.read(descriptor, _CHUNK)
    except BlockingIOError:
        return None
