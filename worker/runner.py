"""The runner: a process that imports the user's handler and nothing of the database, and runs the tasks it is fed.

    python -P -m stoker.worker.runner FEED ACKS SLATE

FEED and ACKS are pipes with a JSON line a message; SLATE is the shared page. It says on the slate which task it starts
before it starts it. It arms a timer of its own, so that it ends even if the keeper cannot end it.
"""

import contextlib
import gc
import importlib
import json
import os
import signal
import sys
import time
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from stoker.worker.capture import MixedVoice, Voice
from stoker.worker.pieces import UnreadableError, cut, read_one, salvage
from stoker.worker.redact import bounded, stored
from stoker.worker.slate import Slate
from stoker.worker.task import Task

WORTH_KEEPING_NS = 100_000_000
_CHUNK = 1 << 20
_KIND_LIMIT = 100
_WORDS_LIMIT = 2000
_AWAITED = 0x80 | 0x100  # inspect.CO_COROUTINE, inspect.CO_ITERABLE_COROUTINE


def main() -> None:
    """Run until the feed ends."""
    feed, acks, page = (int(argument) for argument in sys.argv[1:4])
    lines = _lines(feed)
    hello = json.loads(next(lines))
    voice = Voice(hello["nonce"]) if hello["concurrency"] == 1 else MixedVoice(hello["nonce"])
    sys.stdout = sys.stderr = voice
    try:
        handler = _find(hello["handler"], hello["folder"])
        if hello["concurrency"] > 1 and not _is_async(handler):
            raise TypeError(f"concurrency = {hello['concurrency']} needs an async handler, and {hello['handler']} is not")
        if hello.get("model"):
            from stoker.worker.fit import fitted

            handler = fitted(handler, hello["model"], hello["folder"], is_async=_is_async(handler))
    except BaseException as error:  # noqa: BLE001 - whatever an import raises means the same: it cannot be used
        send(acks, ["broken", f"{_kind(error)}: {stored(_text(error), hello['errors'], None, _secrets(hello))}"])
        return
    send(acks, ["ready"])
    gc.freeze()
    _made(hello, handler, acks, Slate(page), voice).work(lines)


def _made(hello: dict[str, Any], handler: Callable[[Task[Any]], Any], acks: int, slate: Slate, voice: Voice) -> "Runner":
    if not isinstance(voice, MixedVoice):
        return Runner(hello, _synchronous(handler) if _is_async(handler) else handler, acks, slate, voice)
    from stoker.worker.overlap import OverlappingRunner

    return OverlappingRunner(hello, handler, acks, slate, voice)


def read(line: bytes) -> Any:
    """A frame: ``[first number, [[lo, hi, attempt], ...], [places to pass over], [payload, ...]]``."""
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return salvage(line)


class Runner:
    """Runs tasks one after the other, in the order they are fed."""

    REARM_NS = 1_000_000_000

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
        self._busy_ns = 0
        self._cut: tuple[bytes, list[str]] = b"", []
        self._is_forked = False
        os.register_at_fork(after_in_child=self._note_fork)

    def work(self, lines: Iterator[bytes]) -> None:
        """Run the tasks of every frame."""
        for line in lines:
            number, spans, passed, payloads = read(line)
            tasks = ((task_id, attempt) for lo, hi, attempt in spans for task_id in range(lo, hi + 1))
            turns: Any = enumerate(zip(tasks, payloads, strict=True))
            if passed:
                turns = [turn for turn in turns if turn[0] not in passed]
            self._run(number, turns, line)
            last = number + len(payloads) - 1
            self._slate.finish(last, self._busy_ns)
            self._send(["end"])
            self._disarm()

    def _run(self, first: int, turns: Iterable[tuple[int, tuple[tuple[int, int], Any]]], line: bytes) -> None:
        """Run the tasks of one frame. Between two quick ones the clock is read once, and nothing is called that waits."""
        clock, slate, voice = time.monotonic_ns, self._slate, self._voice
        started = clock()
        for place, ((task_id, attempt), payload) in turns:
            number = first + place
            if started - self._armed_ns > self.REARM_NS:
                self._arm(started)
            voice.number = number
            if not slate.start(number, started):
                self._send(["back", number])
                continue
            try:
                if payload.__class__ is UnreadableError:
                    raise payload
                result = self._handler(Task(task_id, self._mode, payload, attempt, self._installation))
                message = None if result is None else self._done(number, result)
            except BaseException as error:  # noqa: BLE001 - a handler may raise anything; all of it is a failed attempt
                message = self._failed(number, error, self._payload(line, place))
            if self._is_forked:
                os._exit(0)  # a child that the handler forked has come back: it must not go on in its parent's place
            ended = clock()
            took = ended - started
            self._busy_ns += took
            if message is not None or took > WORTH_KEEPING_NS:
                self._send([*(message or ("done", number, None, None)), took / 1e9])
                ended = clock()
            if voice.has_spoken:
                voice.end_task()
            slate.finish(number, self._busy_ns)
            started = ended

    def _payload(self, line: bytes, place: int) -> Any:
        """The payload as it was fed, whatever the handler has done to its own; None if it cannot be read."""
        if self._cut[0] is not line:
            self._cut = line, cut(line)
        payload = read_one(self._cut[1][place])
        return None if isinstance(payload, UnreadableError) else payload

    def _note_fork(self) -> None:
        self._is_forked = True

    def _send(self, message: list[Any]) -> None:
        send(self._acks, message)

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
        if isinstance(error, UnreadableError):
            return ["failed", number, "payload not valid", bounded(str(error), _WORDS_LIMIT), True]
        text = _traceback(error) if self._errors == "full" else f"{_text(error)}{_place(error)}"
        return ["failed", number, _kind(error), stored(text, self._errors, payload, self._secrets), False]

    def _arm(self, now_ns: int) -> None:
        """A frozen keeper must not leave this running: the alarm's default action ends the process, also in C code."""
        if self._timer_seconds is not None:
            signal.setitimer(signal.ITIMER_REAL, self._timer_seconds + self.REARM_NS / 1e9)
        self._armed_ns = now_ns

    def _disarm(self) -> None:
        """Nothing runs: who waits for work is not ended."""
        if self._timer_seconds is not None:
            signal.setitimer(signal.ITIMER_REAL, 0)
        self._armed_ns = 0


def _find(name: str, folder: str) -> Callable[[Task[Any]], Any]:
    """The function behind "package.module:function", found beside config.toml or in the environment."""
    sys.path.insert(0, folder)
    module, _, attribute = name.partition(":")
    found: Any = importlib.import_module(module)
    for part in attribute.split("."):
        found = getattr(found, part)
    if not callable(found):
        raise TypeError(f"{name} is not callable")
    handler: Callable[[Task[Any]], Any] = found
    if not (_is_plain(handler) and handler.__code__.co_argcount == 1 and not handler.__code__.co_kwonlyargcount):
        import inspect  # 10 ms, for what is no plain function of one argument

        with contextlib.suppress(ValueError):
            inspect.signature(handler).bind(object())
    return handler


def _is_plain(handler: Any) -> bool:
    """Whether it is a function as it was written, as most handlers are."""
    return type(handler) is types.FunctionType and not hasattr(handler, "__wrapped__") and not hasattr(handler, "__signature__")


def _is_async(handler: Any) -> bool:
    if _is_plain(handler):
        return bool(handler.__code__.co_flags & _AWAITED)
    import inspect

    return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(getattr(handler, "__call__", None))  # noqa: B004


def _synchronous(handler: Callable[[Task[Any]], Any]) -> Callable[[Task[Any]], Any]:
    import asyncio

    runner = asyncio.Runner()
    return lambda task: runner.run(handler(task))


def _secrets(hello: dict[str, Any]) -> dict[str, str]:
    """What of the environment the mode lists itself."""
    return {name: os.environ[name] for name in hello["secret_names"] if name in os.environ}


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
    import traceback

    try:
        return "".join(traceback.format_exception(error)).strip()[-4000:]
    except BaseException:  # noqa: BLE001 - as above
        return _text(error)


def _place(error: BaseException) -> str:
    """Where the handler raised, as `` (jobs.py:12)``; empty when it is not known."""
    import traceback

    frames = traceback.extract_tb(error.__traceback__)
    return f" ({os.path.basename(frames[-1].filename)}:{frames[-1].lineno})" if frames else ""  # noqa: PTH119


def _lines(descriptor: int) -> Iterator[bytes]:
    rest = b""
    while chunk := os.read(descriptor, _CHUNK):
        *whole, rest = (rest + chunk).split(b"\n") if rest else chunk.split(b"\n")
        yield from whole


def send(descriptor: int, *messages: list[Any]) -> None:
    """Write messages, a line each, whole."""
    data = memoryview("".join(json.dumps(message) + "\n" for message in messages).encode())
    while data:
        data = data[os.write(descriptor, data) :]


if __name__ == "__main__":
    main()
