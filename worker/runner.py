"""The runner: a process that imports the user's handler and nothing of the database, and runs the tasks it is fed.

    python -P -m stoker.worker.runner FEED ACKS SLATE ANSWERS

FEED, ACKS and ANSWERS are pipes with a JSON line a message; SLATE is the shared page. It says on the slate which task it starts
before it starts it. It arms a timer of its own, so that it ends even if the keeper cannot end it.
"""

import _thread
import gc
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from stoker.worker.capture import MixedVoice, Voice
from stoker.worker.errors import kind_of, names_of, place_of, text_of, traceback_of
from stoker.worker.found import find_handler, is_async
from stoker.worker.health import unwell
from stoker.worker.pieces import UnreadableError, cut, read_one, salvage
from stoker.worker.redact import bounded, stored
from stoker.worker.slate import Slate
from stoker.worker.task import Task

WORTH_KEEPING_NS = 100_000_000
_CHUNK = 1 << 20
_WORDS_LIMIT = 2000


_forks = 0


def _count_fork() -> None:
    global _forks  # a hook cannot be taken back: one serves all runners of a process
    _forks += 1


os.register_at_fork(after_in_child=_count_fork)


def main() -> None:
    """Run until the feed ends."""
    feed, acks, page, answers = (int(argument) for argument in sys.argv[1:5])
    lines = _lines(feed)
    hello = json.loads(next(lines))
    voice = Voice(hello["nonce"]) if hello["concurrency"] == 1 else MixedVoice(hello["nonce"])
    sys.stdout = sys.stderr = voice
    try:
        handler = find_handler(hello["handler"], hello["folder"])
        if hello["concurrency"] > 1 and not is_async(handler):
            raise TypeError(f"concurrency = {hello['concurrency']} needs an async handler, and {hello['handler']} is not")
        if hello.get("model"):
            from stoker.worker.fit import fitted

            handler = fitted(handler, hello["model"], hello["folder"], hello["errors"], is_async=is_async(handler))
    except BaseException as error:  # noqa: BLE001 - whatever an import raises means the same: it cannot be used
        send(acks, ["broken", f"{kind_of(error)}: {stored(text_of(error), hello['errors'], None, _secrets(hello))}"])
        return
    if words := unwell(hello, _secrets(hello)):
        send(acks, ["broken", words])
        return
    send(acks, ["ready"])
    gc.freeze()
    runner = Task.runner = _made(hello, handler, acks, Slate(page), voice)
    runner.answers = answers
    runner.work(lines)


def _made(hello: dict[str, Any], handler: Callable[[Task[Any]], Any], acks: int, slate: Slate, voice: Voice) -> "Runner":
    if not isinstance(voice, MixedVoice):
        if is_async(handler):
            from stoker.worker.calling_off import synchronous

            handler = synchronous(handler, slate, voice)
        return Runner(hello, handler, acks, slate, voice)
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

    answers: int
    line: Any = None

    def __init__(
        self, hello: dict[str, Any], handler: Callable[[Task[Any]], Any], acks: int, slate: Slate, voice: Voice
    ) -> None:
        self.steps = tuple[str, ...](hello["steps"])
        self._mode: str = hello["mode"]
        self._installation: str = hello["installation"]
        self._errors: str = hello["errors"]
        self._modes: dict[str, int] = hello["modes"]
        self._payload_limit: int = hello["payload_limit"]
        self._retry_on, self._fail_on = frozenset[str](hello["retry_on"]), frozenset[str](hello["fail_on"])
        self._secrets = _secrets(hello)
        self._label: str = hello["label"]
        self._result_limit: int = hello["result_limit"]
        self._timer_seconds: float | None = hello["timer_seconds"]
        self._slots: int = hello["concurrency"]
        self._handler = handler
        self.acks = acks
        self._slate = slate
        self._voice = voice
        self._sending = _thread.allocate_lock()
        self._armed_ns = 0
        self._busy_ns = 0
        self._cut: tuple[bytes, list[str]] = b"", []
        self._forks = _forks

    @property
    def current(self) -> int:
        """The number of the task that runs."""
        return self._voice.number

    def is_called_off(self, task: Task[Any]) -> bool:
        """Whether somebody wants ``task`` called off."""
        from stoker.worker.steps import number_of

        return number_of(task) in self._slate.called_off(self._slots)

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
            self.send(["end"])
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
                self.send(["back", number])
                continue
            try:
                if payload.__class__ is UnreadableError:
                    raise payload
                result = self._handler(Task(task_id, self._mode, payload, attempt, self._installation))
                message = None if result is None else self._done(number, result, line, place)
            except BaseException as error:  # noqa: BLE001 - a handler may raise anything; all of it is a failed attempt
                message = self._failed(number, error, self._payload(line, place))
            if self._forks != _forks:
                os._exit(0)  # a child that the handler forked has come back: it must not go on in its parent's place
            ended = clock()
            took = ended - started
            self._busy_ns += took
            if message is not None or took > WORTH_KEEPING_NS:
                self.send([*(message or ("done", number, None, None)), took / 1e9])
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

    @property
    def is_forked(self) -> bool:
        """Whether this is a child that the handler forked."""
        return self._forks != _forks

    def send(self, message: list[Any]) -> None:
        """Tell the keeper; threads do not write into each other's messages."""
        with self._sending:
            send(self.acks, message)

    def _done(self, number: int, result: Any, line: bytes, place: int) -> list[Any]:
        from stoker.sql.payload import PayloadError, encode

        outcomes = sys.modules.get("stoker.worker.outcomes")
        if outcomes and isinstance(result, outcomes.Outcome):
            return self._ended(number, result, line, place)
        try:
            text = encode(result, self._result_limit, "result")
        except PayloadError as error:
            kind = "result too large" if "above the limit" in str(error) else "result not JSON"
            return ["failed", number, kind, self._fit(str(error), line, place), True]
        label = result.get(self._label) if self._label and isinstance(result, dict) else None
        return ["done", number, text, str(label)[:63] if label is not None else None]

    def _failed(self, number: int, error: BaseException, payload: Any) -> list[Any]:
        if isinstance(error, UnreadableError):
            return ["failed", number, "payload not valid", bounded(str(error), _WORDS_LIMIT), True]
        text = traceback_of(error) if self._errors == "full" else f"{text_of(error)}{place_of(error)}"
        text = stored(text, self._errors, payload, self._secrets)
        names = names_of(error) if self._retry_on or self._fail_on else ()
        if self._fail_on.isdisjoint(names) and not self._retry_on.isdisjoint(names):
            return ["ended", number, {"said": "failed", "error_kind": kind_of(error), "error": text, "is_retriable": True}]
        return ["failed", number, kind_of(error), text, not self._fail_on.isdisjoint(names)]

    def _fit(self, text: str, line: bytes, place: int) -> str:
        """The words of a task as its mode lets them be stored."""
        return stored(text, self._errors, self._payload(line, place), self._secrets)

    def _ended(self, number: int, outcome: Any, line: bytes, place: int) -> list[Any]:
        """What the handler says became of the attempt."""
        if not hasattr(outcome, "then"):
            facts = outcome.facts()
            if facts["said"] != "held" and facts.get("error"):
                facts["error"] = self._fit(facts["error"], line, place)
            return ["ended", number, facts]
        try:
            rows = [one.row(self._modes, self._payload_limit) for one in outcome.then]
        except ValueError as error:
            return ["failed", number, "follow-up refused", self._fit(str(error), line, place), True]
        message = ["done", number, None, None] if outcome.result is None else self._done(number, outcome.result, line, place)
        if message[0] == "failed" or not rows:
            return message
        return ["ended", number, {"said": "done", "result": message[2], "label": message[3], "then": rows}]

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


def _secrets(hello: dict[str, Any]) -> dict[str, str]:
    """What of the environment the mode lists itself."""
    return {name: os.environ[name] for name in hello["secret_names"] if name in os.environ}


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
