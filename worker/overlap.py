"""A runner of several tasks at a time, for async handlers of a mode with ``concurrency`` above 1: one event loop.

Tasks end in any order here, so each is told of through the pipe; the shared page says which ones run. A task that runs
too long is cancelled by itself, and the others go on; what blocks the loop is ended by the keeper, as ever.
"""

import asyncio
import json
import os
import time
from collections.abc import Callable, Iterator
from typing import Any

from stoker.worker.capture import MixedVoice
from stoker.worker.limits import TIMEOUT
from stoker.worker.runner import WORTH_KEEPING_NS, Runner, payload_of, send
from stoker.worker.slate import Slate
from stoker.worker.task import Task


class OverlappingRunner(Runner):
    """Runs up to ``concurrency`` tasks at a time, started in the order they are fed."""

    def __init__(
        self, hello: dict[str, Any], handler: Callable[[Task[Any]], Any], acks: int, slate: Slate, voice: MixedVoice
    ) -> None:
        super().__init__(hello, handler, acks, slate, voice)
        self._mixed_voice = voice
        self._timeout: float | None = hello["timeout"]
        self._pairs: asyncio.Queue[int] = asyncio.Queue()
        for pair in range(hello["concurrency"]):
            self._pairs.put_nowait(pair)
        self._running = 0
        self._said: list[list[Any]] = []
        self._left: list[int] = []

    def work(self, lines: Iterator[bytes]) -> None:
        """Run every task of every frame; the next frame is read when the last task of this one has started."""
        asyncio.run(self._work(lines))

    async def _work(self, lines: Iterator[bytes]) -> None:
        async with asyncio.TaskGroup() as group:
            while line := await asyncio.to_thread(next, lines, b""):
                first, spans, passed, payloads = json.loads(line)
                tasks = ((task_id, attempt) for lo, hi, attempt in spans for task_id in range(lo, hi + 1))
                for place, ((task_id, attempt), payload) in enumerate(zip(tasks, payloads, strict=True)):
                    if place not in passed:
                        task = Task(task_id, self._mode, payload, attempt, self._installation)
                        pair = await self._pairs.get()
                        self._running += 1
                        group.create_task(self._attempt(pair, first + place, task, line, place))

    async def _attempt(self, pair: int, number: int, task: Task[Any], line: bytes, place: int) -> None:
        started = time.monotonic_ns()
        if started - self._armed_ns > self.REARM_NS:
            self._arm(started)
        if self._slate.start(number, started, pair):
            self._mixed_voice.speak_for(number)
            message = await self._try(number, task, line, place)
            if self._is_forked:
                os._exit(0)  # a child that the handler forked has come back: it must not go on in its parent's place
            if self._mixed_voice.number == number:
                self._mixed_voice.turn_to(0)
            took = time.monotonic_ns() - started
            if message is not None or took > WORTH_KEEPING_NS:
                self._said.append([*(message or ("done", number, None, None)), took / 1e9])
            self._said.append(["over", number, took / 1e9])
        else:
            self._said.append(["back", number])
        if not self._left:
            asyncio.get_running_loop().call_soon(self._tell)
        self._left.append(pair)

    async def _try(self, number: int, task: Task[Any], line: bytes, place: int) -> list[Any] | None:
        """One attempt; the message of whatever is more than a plain success."""
        try:
            async with asyncio.timeout(self._timeout) as limit:
                result = await self._handler(task)
            return None if result is None else self._done(number, result)
        except BaseException as error:  # noqa: BLE001 - a handler may raise anything; all of it is a failed attempt
            if isinstance(error, TimeoutError) and limit.expired():
                return ["failed", number, TIMEOUT, f"ran longer than {self._timeout:g} s", False]
            return self._failed(number, error, payload_of(line, place))

    def _tell(self) -> None:
        """Say what is over, in one write, before anything says that it does not run any more."""
        said, left, self._said, self._left = self._said, self._left, [], []
        send(self._acks, *said)
        for pair in left:
            self._slate.leave(pair)
            self._pairs.put_nowait(pair)
        self._running -= len(left)
        if not self._running:
            self._disarm()
