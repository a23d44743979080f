"""Async handlers and the tasks that are called off: the shared page is looked at while the loop runs, not task by task."""

import asyncio
from collections.abc import Callable
from typing import Any

from stoker.worker.capture import Voice
from stoker.worker.slate import Slate
from stoker.worker.task import Task

_LOOK_SECONDS = 0.25


def watch(loop: asyncio.AbstractEventLoop, called_off: Callable[[], list[asyncio.Task[Any]]]) -> None:
    """Cancel each of the tasks ``called_off`` names, once: a handler may take its time to end, or refuse."""
    told: list[asyncio.Task[Any]] = []

    def look() -> None:
        for task in called_off():
            if task not in told:
                told.append(task)
                task.cancel()
        told[:] = [task for task in told if not task.done()]
        loop.call_later(_LOOK_SECONDS, look)

    loop.call_later(_LOOK_SECONDS, look)


def synchronous(handler: Callable[[Task[Any]], Any], slate: Slate, voice: Voice) -> Callable[[Task[Any]], Any]:
    """An async handler as a function that runs one task to its end; ``voice`` knows the number of the one that runs."""
    runner = asyncio.Runner()
    running: list[Any] = [None]

    def called_off() -> list[asyncio.Task[Any]]:
        if voice.number not in slate.called_off():
            return []
        return [task for task in asyncio.all_tasks() if task.get_coro() is running[0]]

    def call(task: Task[Any]) -> Any:
        running[0] = handler(task)
        return runner.run(running[0])

    watch(runner.get_loop(), called_off)
    return call
