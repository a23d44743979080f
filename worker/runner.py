"""The runner: a process that imports the user's handler and nothing of the database, and runs the tasks it is fed.

    python -P -m stoker.worker.runner FEED ACKS SLATE

FEED and ACKS are pipes with a JSON line a message; SLATE is the shared page. It says on the slate which task it starts
before it starts it. It arms a timer of its own, so that it ends even if the keeper cannot end it.
"""

import contextlib
import gc
import importlib
import inspect
import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from stoker.worker.capture import Voice
from stoker.worker.redact import bounded, stored
from stoker.worker.slate import Slate
from stoker.worker.task import Task

WORTH_KEEPING_NS = 100_000_000
_REARM_NS = 1_000_000_000
_CHUNK = 1 << 20
_KIND_LIMIT = 100


def main() -> None:
    """Run until the feed ends."""
    feed, acks, page = (int(argument) for argument in sys.argv[1:4])
    lines = _lines(feed)
    hello = json.loads(next(lines))
    voice = Voice(hello["nonce"])
    sys.stdout = sys.stderr = voice
    try:
        handler = _find(hello["handler"], hello["folder"])
    except BaseException as error:  # noqa: BLE001 - whatever an import raises means the same: it cannot be used
        _send(acks, ["broken", f"{_kind(error)}: {stored(_text(error), hello['errors'], None, _secrets(hello))}"])
        return
    _send(acks, ["ready"])
    gc.freeze()
    Runner(hello, handler, acks, Slate(page), voice).work(lines)


class Runner:
    """Runs tasks one after the other, in the order they are fed."""

    def __init__(
        self, hello: dict[str, Any], handler: Callable[[Task[Any]], Any], acks: int, slate: Slate, voice: Voice
    ) -> None:
        self._mode: str = hello["mode"]
        self._installation: str = hello["installation"]
        self._errors: str = hello["errors"]
        self._secrets = _secrets(hello)
        self._label: str = hello["label"]
        self._result_limit: int = hello["result_limit"]
        self._timer_seconds: float | None = hello["timer_seconds"]
        self._handler = handler
        self._acks = acks
        self._slate = slate
        self._voice = voice
        self._armed_ns = 0
        self._pid = os.getpid()

    def work(self, lines: Iterator[bytes]) -> None:
        """Run every task of every frame: ``[first number, [[id, attempt, payload], ...]]``."""
        for line in lines:
            first, tasks = json.loads(line)
            for place, (task_id, attempt, payload) in enumerate(tasks):
                task = Task(task_id, self._mode, payload, attempt, self._installation)
                self._run(first + place, task, partial(_payload, line, place))
            _send(self._acks, ["end", first + len(tasks) - 1])

    def _run(self, number: int, task: Task[Any], payload: Callable[[], Any]) -> None:
        """Run one task; ``payload`` gives it anew, whatever the handler has done to it."""
        started = time.monotonic_ns()
        if started - self._armed_ns > _REARM_NS:
            self._arm(started)
        self._voice.number = number
        self._slate.start(number, started)
        try:
            result = self._handler(task)
            message = None if result is None else self._done(number, result)
        except BaseException as error:  # noqa: BLE001 - a handler may raise anything; all of it is a failed attempt
            message = self._failed(number, error, payload())
        if os.getpid() != self._pid:
            os._exit(0)  # a child that the handler forked has come back: it must not go on in its parent's place
        took = time.monotonic_ns() - started
        if message is None and took > WORTH_KEEPING_NS:
            message = ["done", number, None, None]
        if message is not None:
            _send(self._acks, [*message, took / 1e9])
        self._voice.end_task()
        self._slate.finish(number, took)

    def _done(self, number: int, result: Any) -> list[Any]:
        from stoker.sql.payload import PayloadError, encode

        try:
            text = encode(result, self._result_limit, "result")
        except PayloadError as error:
            kind = "result too large" if "above the limit" in str(error) else "result not JSON"
            return ["failed", number, kind, str(error), True]
        label = result.get(self._label) if self._label and isinstance(result, dict) else None
        return ["done", number, text, str(label)[:63] if label is not None else None]

    def _failed(self, number: int, error: BaseException, payload: Any) -> list[Any]:
        text = _traceback(error) if self._errors == "full" else f"{_text(error)}{_place(error)}"
        return ["failed", number, _kind(error), stored(text, self._errors, payload, self._secrets), False]

    def _arm(self, now_ns: int) -> None:
        """A frozen keeper must not leave this running: the alarm's default action ends the process, also in C code."""
        if self._timer_seconds is not None:
            signal.setitimer(signal.ITIMER_REAL, self._timer_seconds + _REARM_NS / 1e9)
        self._armed_ns = now_ns


def _find(name: str, folder: str) -> Callable[[Task[Any]], Any]:
    """The function behind "package.module:function", found beside config.toml or in the environment."""
    sys.path.insert(0, folder)
    module, _, attribute = name.partition(":")
    found: Any = importlib.import_module(module)
    for part in attribute.split("."):
        found = getattr(found, part)
    if not callable(found):
        raise TypeError(f"{name} is not callable")
    with contextlib.suppress(ValueError):
        inspect.signature(found).bind(object())
    return _synchronous(found) if inspect.iscoroutinefunction(found) else found


def _synchronous(handler: Callable[[Task[Any]], Any]) -> Callable[[Task[Any]], Any]:
    import asyncio

    runner = asyncio.Runner()
    return lambda task: runner.run(handler(task))


def _secrets(hello: dict[str, Any]) -> dict[str, str]:
    """What of the environment the mode lists itself."""
    return {name: os.environ[name] for name in hello["secret_names"] if name in os.environ}


def _payload(frame: bytes, place: int) -> Any:
    """The payload as it was fed, whatever the handler has done to its own."""
    return json.loads(frame)[1][place][2]


def _kind(error: BaseException) -> str:
    """The error's class, fit to be stored whatever it calls itself."""
    return bounded(type(error).__qualname__, _KIND_LIMIT)


def _text(error: BaseException) -> str:
    """The error's own words; an exception class may fail to give them."""
    try:
        return str(error)
    except BaseException:  # noqa: BLE001 - whatever goes wrong there, the attempt failed for the error at hand
        return "(its text cannot be read)"


def _traceback(error: BaseException) -> str:
    try:
        return "".join(traceback.format_exception(error)).strip()[-4000:]
    except BaseException:  # noqa: BLE001 - as above
        return _text(error)


def _place(error: BaseException) -> str:
    """Where the handler raised, as `` (jobs.py:12)``; empty when it is not known."""
    frames = traceback.extract_tb(error.__traceback__)
    return f" ({os.path.basename(frames[-1].filename)}:{frames[-1].lineno})" if frames else ""  # noqa: PTH119


def _lines(descriptor: int) -> Iterator[bytes]:
    rest = b""
    while chunk := os.read(descriptor, _CHUNK):
        *whole, rest = (rest + chunk).split(b"\n") if rest else chunk.split(b"\n")
        yield from whole


def _send(descriptor: int, message: list[Any]) -> None:
    data = memoryview(json.dumps(message).encode() + b"\n")
    while data:
        data = data[os.write(descriptor, data) :]


if __name__ == "__main__":
    main()
