"""A runner of several tasks at a time, for async handlers of a mode with ``concurrency`` above 1: one event loop.

Tasks end in any order here, so each is told of, in the shared page, which also says which ones run. A task that runs
too long is cancelled by itself, and the others go on; what blocks the loop is ended by the keeper, as ever.
"""

import asyncio
import os
import select
import selectors
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from stoker.worker.calling_off import watch
from stoker.worker.capture import MixedVoice
from stoker.worker.limits import TIMEOUT
from stoker.worker.pieces import UnreadableError
from stoker.worker.runner import WORTH_KEEPING_NS, Runner, read
from stoker.worker.slate import Slate
from stoker.worker.task import Task

_MOST_FOR_SELECT = 1024


class OverlappingRunner(Runner):
    """Runs up to ``concurrency`` tasks at a time, started in the order they are fed."""

    _voice: MixedVoice

    def __init__(
        self, hello: dict[str, Any], handler: Callable[[Task[Any]], Any], acks: int, slate: Slate, voice: MixedVoice
    ) -> None:
        super().__init__(hello, handler, acks, slate, voice)
        self._timeout: float | None = hello["timeout"]
        self._turns: deque[_Turn] = deque()
        self._idle = list(range(self._slots))
        self._running: dict[asyncio.Task[None], _Turn] = {}
        self._wanted = threading.Event()

    def work(self, lines: Iterator[bytes]) -> None:
        """Run every task of every frame; the next frame is read when the last tasks of this one are about to start."""
        with asyncio.Runner(loop_factory=_loop) as runner:
            runner.run(self._work(lines))

    async def _work(self, lines: Iterator[bytes]) -> None:
        over = asyncio.Event()
        watch(asyncio.get_running_loop(), self._called_off)
        threading.Thread(target=self._hear, args=(lines, asyncio.get_running_loop(), over), daemon=True).start()
        await over.wait()
        while self._turns or self._running:
            await asyncio.wait([*self._running])

    def _called_off(self) -> list[asyncio.Task[None]]:
        """Those that run and are called off: none of them is cancelled before it has begun."""
        numbers = self._slate.called_off(self._slots)
        return [attempt for attempt, turn in self._running.items() if turn.number in numbers] if numbers else []

    def _hear(self, lines: Iterator[bytes], loop: asyncio.AbstractEventLoop, over: asyncio.Event) -> None:
        """Read the feed, in a thread of its own: those of the loop may all be held by handlers."""
        for line in lines:
            turns = list(_turns(line))
            self._wanted.clear()
            loop.call_soon_threadsafe(self._take, turns)
            self._wanted.wait()
        loop.call_soon_threadsafe(over.set)

    def _take(self, turns: "list[_Turn]") -> None:
        self._turns.extend(turns)
        while self._idle and self._turns:
            self._start(self._idle.pop())
        self._ask_for_more()

    def _start(self, pair: int) -> None:
        """The next task, in one pair of the page. In a Task of its own, which a handler may cancel late."""
        turn = self._turns.popleft()
        attempt = asyncio.create_task(self._attempt(pair, turn))
        self._running[attempt] = turn
        attempt.add_done_callback(partial(self._go_on, pair))

    def _go_on(self, pair: int, attempt: "asyncio.Task[None]") -> None:
        del self._running[attempt]
        if self._turns:
            self._start(pair)
            self._ask_for_more()
            return
        self._idle.append(pair)
        if not self._running:
            self.send(["end"])
            self._disarm()

    def _ask_for_more(self) -> None:
        if len(self._turns) < self._slots and not self._wanted.is_set():
            self._wanted.set()
            self.send(["end"])

    async def _attempt(self, pair: int, turn: "_Turn") -> None:
        started = time.monotonic_ns()
        if started - self._armed_ns > self.REARM_NS:
            self._arm(started)
        if not self._slate.start(turn.number, started, pair):
            self.send(["back", turn.number])
            return
        self._voice.speak_for(turn.number)
        task = Task(turn.id, self._mode, turn.payload, turn.attempt, self._installation)
        task.number = turn.number
        message = await self._try(turn, task)
        if self.is_forked:
            os._exit(0)  # a child that the handler forked has come back: it must not go on in its parent's place
        if self._voice.number == turn.number:
            self._voice.turn_to(0)
        took = time.monotonic_ns() - started
        if message is not None or took > WORTH_KEEPING_NS:
            self.send([*(message or ("done", turn.number, None, None)), took / 1e9])
        if not self._slate.end(turn.number, took):
            self.send(["over", turn.number, took / 1e9])
        self._slate.leave(pair)

    async def _try(self, turn: "_Turn", task: Task[Any]) -> list[Any] | None:
        """One attempt; the message of whatever is more than a plain success."""
        try:
            if isinstance(turn.payload, UnreadableError):
                raise turn.payload
            async with asyncio.timeout(self._timeout) as limit:
                result = await self._handler(task)
            return None if result is None else self._done(turn.number, result, turn.line, turn.place)
        except BaseException as error:  # noqa: BLE001 - a handler may raise anything; all of it is a failed attempt
            if isinstance(error, TimeoutError) and limit.expired():
                return ["failed", turn.number, TIMEOUT, f"ran longer than {self._timeout:g} s", False]
            return self._failed(turn.number, error, self._payload(turn.line, turn.place))


def _loop() -> asyncio.AbstractEventLoop:
    return asyncio.SelectorEventLoop(_ExactSelector()) if hasattr(selectors, "EpollSelector") else asyncio.new_event_loop()


if hasattr(selectors, "EpollSelector"):

    class _ExactSelector(selectors.EpollSelector):
        """Waits as long as it is told. epoll counts whole milliseconds, so that a sleep of ten takes half of one more."""

        def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
            """What is ready, after ``timeout`` seconds at the longest: epoll's descriptor is watched by who counts finer."""
            if timeout is not None and timeout > 0 and self.fileno() < _MOST_FOR_SELECT:
                select.select([self.fileno()], [], [], timeout)
                timeout = 0
            return super().select(timeout)


@dataclass(slots=True)
class _Turn:
    """A task to be run, and where it stands in its frame."""

    number: int
    id: int
    attempt: int
    payload: Any
    line: bytes
    place: int


def _turns(line: bytes) -> Iterator[_Turn]:
    first, spans, passed, payloads = read(line)
    tasks = ((task_id, attempt) for lo, hi, attempt in spans for task_id in range(lo, hi + 1))
    for place, ((task_id, attempt), payload) in enumerate(zip(tasks, payloads, strict=True)):
        if place not in passed:
            yield _Turn(first + place, task_id, attempt, payload, line, place)
