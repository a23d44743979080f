"""Steps and progress, as the runner sees them: it asks its keeper through a pipe and waits for the answer on another.

Imported by the first task that uses them. One question is on its way at a time, whichever thread asks.
"""

import asyncio
import json
import math
import os
import select
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from stoker.sql.payload import PayloadError, encode, is_text
from stoker.worker.task import ANSWER, Task

STEP_LIMIT = 64 << 10
LONGEST_NAME = LONGEST_TEXT = 200
"""The step that a person finishes, by answering what a held task asks."""
_LEAST_PAUSE_SECONDS = 0.05
_CHUNK = 1 << 16
_FIRST = threading.Lock()
Result = TypeVar("Result")


class StepError(Exception):
    """A step that cannot be done or kept. The text says which, why, and what to do."""


class Line:
    """The line to the keeper of one ``runner`` (runner.py): a question, and the answer with its number."""

    def __init__(self, runner: Any) -> None:
        self._runner = runner
        self._lock = threading.Lock()
        self._rest = b""
        self._asked = 0
        self._told: dict[int, float] = {}

    def ask(self, kind: str, task: Task[Any], *facts: Any) -> Any:
        """What the keeper answers, when the database has it; raises StepError when the task is another worker's by now."""
        with self._lock:
            self._asked += 1
            self._runner.send([kind, number_of(task), task.id, self._asked, *facts])
            answer = self._read(self._asked)
        if answer is None:
            raise StepError(f"task {task.id} is not this worker's any more: nothing of it is stored")
        return answer

    def tell(self, task: Task[Any], fraction: float, text: str) -> None:
        """Say it unless something was said just now, or the pipe is full."""
        now, number = time.monotonic(), number_of(task)
        if now - self._told.get(number, 0.0) < _LEAST_PAUSE_SECONDS or not select.select([], [self._runner.acks], [], 0)[1]:
            return
        self._told = {n: at for n, at in self._told.items() if now - at < _LEAST_PAUSE_SECONDS} | {number: now}
        self._runner.send(["progress", number, task.id, fraction, text])

    def _read(self, asked: int) -> Any:
        """The answer to question ``asked``. One that an interrupted handler did not wait for is passed over."""
        while True:
            *lines, self._rest = self._rest.split(b"\n")
            for place, line in enumerate(lines):
                number, answer = json.loads(line)
                if number == asked:
                    self._rest = b"\n".join([*lines[place + 1 :], self._rest])
                    return answer
            chunk = os.read(self._runner.answers, _CHUNK)
            if not chunk:
                raise StepError("the keeper of this worker is gone: nothing is stored any more")
            self._rest += chunk


def run(task: Task[Any], name: str, work: Callable[[], Result]) -> Result:
    """As Task.step says."""
    if name in (done := _checked(task, name)):
        found: Result = done[name]
        return found
    result: Result = _keep(task, name, _encoded(name, work()))
    return result


async def run_async(task: Task[Any], name: str, work: Callable[[], Awaitable[Result]]) -> Result:
    """As Task.step_async says. The thread that waits for the keeper also ends when the task is cancelled meanwhile."""
    if name in (done := await asyncio.to_thread(_checked, task, name)):
        found: Result = done[name]
        return found
    text = _encoded(name, await work())
    result: Result = await asyncio.to_thread(_keep, task, name, text)
    return result


def finished(task: Task[Any]) -> dict[str, Any]:
    """The finished steps with their results; the keeper is asked once an attempt."""
    with _FIRST:
        try:
            return task.finished
        except AttributeError:
            line = _line()
            task.finished = line.ask("steps", task) if line else {}
            return task.finished


def tell(task: Task[Any], fraction: float, text: str) -> None:
    """As Task.progress says."""
    if isinstance(fraction, bool) or not isinstance(fraction, int | float) or not 0 <= fraction <= 1 or math.isnan(fraction):
        raise ValueError("progress must be a number from 0 to 1")
    line = _line()
    if line:
        line.tell(task, float(fraction), str(text))


def number_of(task: Task[Any]) -> int:
    """The number by which the keeper knows the task: where one runs at a time, that of the one that runs."""
    try:
        return task.number
    except AttributeError:
        task.number = Task.runner.current if Task.runner else 0
        return task.number


def _checked(task: Task[Any], name: str) -> dict[str, Any]:
    if not isinstance(name, str) or not 0 < len(name) <= LONGEST_NAME or not is_text(name):
        raise StepError(f"a step needs a name of 1 to {LONGEST_NAME} characters, without NUL and lone surrogates")
    if name == ANSWER:
        raise StepError(f"a step cannot be called {ANSWER!r}: that is what a person answers (task.answer)")
    declared = Task.runner.steps if Task.runner else ()
    if declared and name not in declared:
        raise StepError(f"mode {task.mode} has no step {name!r}: its steps in config.toml are {', '.join(declared)}")
    return finished(task)


def _encoded(name: str, result: Any) -> str:
    try:
        return encode(result, STEP_LIMIT, f"the result of step {name!r}")
    except PayloadError as error:
        raise StepError(f"{error}: keep it elsewhere, and return where") from None


def _keep(task: Task[Any], name: str, text: str) -> Any:
    """Store a finished step; its result as every later attempt will see it."""
    done = finished(task)
    declared = Task.runner.steps if Task.runner else ()
    fraction = (sum(one in done for one in declared) + 1) / len(declared) if declared else None
    if line := _line():
        line.ask("step", task, name, text, fraction)
    done[name] = json.loads(text)
    return done[name]


def _line() -> Line | None:
    """The line of this process; None where a handler is called by hand."""
    runner = Task.runner
    if runner is None:
        return None
    runner.line = runner.line or Line(runner)
    line: Line = runner.line
    return line
