"""One pass of a user's loop, by a process that holds the limits on everything below it, and leaves nothing of it behind.

    python -P -m stoker.worker.loop       (its orders are one JSON line on standard input, which then stays open)

The end of standard input means that whoever ordered it is gone: that ends the pass, and so does SIGTERM. What came of it is
the only line on standard output: {"count": 3, "error": null, "said": "", "strays": 0}. The count is null where there is none.
"""

import contextlib
import json
import os
import shutil
import signal
import sys
from dataclasses import asdict, dataclass, field
from types import NoneType
from typing import Any

import anyio

from stoker.hygiene.process import Child, become_subreaper, describe_exit, end_strays, end_tree, spawn
from stoker.worker.capture import Tail
from stoker.worker.orders import BASE_ENVIRONMENT
from stoker.worker.redact import LOOKED_AT, bounded, redact

_SAID_LENGTH = 4000
_ERROR_LENGTH = 500
_TOLD_BYTES = 60_000
_CHUNK = 1 << 16
_TOLD_TO_STOP = (signal.SIGTERM, signal.SIGINT)


@dataclass(frozen=True, slots=True)
class LoopOrders:
    """What is to be done: a handler or a program, found beside ``folder``; ``time_limit`` and ``grace`` are seconds."""

    name: str
    folder: str
    handler: str = ""
    command: tuple[str, ...] = ()
    time_limit: float = 300.0
    grace: float = 10.0
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def longest(self) -> float:
        """Seconds after which it is over, whatever it does: what cannot be killed is let go five seconds after."""
        return self.time_limit + self.grace + 10.0

    def to_json(self) -> str:
        """One line of JSON; it may hold secrets of the environment."""
        return json.dumps(asdict(self), separators=(",", ":"))

    @staticmethod
    def from_json(line: str) -> "LoopOrders":
        """The orders in a line that ``to_json`` made."""
        given: dict[str, Any] = json.loads(line)
        return LoopOrders(**{**given, "command": tuple(given["command"])})


def main() -> None:
    """Read the orders, do one pass, say what came of it."""
    orders = LoopOrders.from_json(sys.stdin.buffer.readline().decode())
    become_subreaper()
    one = Pass(orders)
    for number in _TOLD_TO_STOP:
        signal.signal(number, one.remember)
    sys.stdout.write(json.dumps(anyio.run(one.run)) + "\n")


class Pass:
    """One pass: the handler's process, or the program's, and all that it starts."""

    def __init__(self, orders: LoopOrders) -> None:
        self._orders = orders
        self._told = self._heard = -1
        self._said = Tail(LOOKED_AT)
        self._why = ""
        self._is_told = False

    def remember(self, *_: object) -> None:
        """A signal before anybody listens: it must not end this process while something below it lives."""
        self._is_told = True

    async def run(self) -> dict[str, Any]:
        """Start it, wait for it, end what is left of it."""
        try:
            child = self._start()
        except OSError as error:
            return self._outcome(f"it cannot be started: {os.strerror(error.errno or 0)}")
        limit = anyio.move_on_after(self._orders.time_limit)
        async with anyio.create_task_group() as group:
            group.start_soon(self._listen)
            group.start_soon(self._hear_signals, limit)
            group.start_soon(self._watch_parent, limit)
            with limit:
                await child.wait()
            if child.returncode is None:
                self._why = self._why or f"it was ended after {self._orders.time_limit:g} s, its time limit"
                await end_tree(child, grace_seconds=self._orders.grace)
            strays = end_strays()  # while signals are still heard: they must not end this process before it is done
            group.cancel_scope.cancel()
        return {**self._outcome(self._why or None, child), "strays": strays}

    def _start(self) -> Child:
        orders = self._orders
        self._told, told = os.pipe()
        self._heard, heard = os.pipe()
        os.set_blocking(self._told, False)
        os.set_blocking(self._heard, False)
        try:
            return spawn(
                self._program() if orders.command else self._handler(told),
                env={**orders.environment, "STOKER_LOOP": orders.name},
                cwd=orders.folder,
                stdout=heard,
                stderr=heard,
                pass_fds=() if orders.command else (told,),
                die_with_parent=True,
            )
        finally:
            os.close(told)
            os.close(heard)

    def _handler(self, told: int) -> list[str]:
        return [sys.executable, "-P", "-m", "stoker.worker.loop_runner", self._orders.handler, self._orders.folder, str(told)]

    def _program(self) -> list[str]:
        """The program, beside config.toml or on the PATH."""
        program, *arguments = self._orders.command
        beside = os.path.join(self._orders.folder, program)  # noqa: PTH118 - which() takes text
        found = shutil.which(beside) if os.sep in program else None
        return [found or shutil.which(program, path=self._orders.environment.get("PATH", os.defpath)) or program, *arguments]

    async def _listen(self) -> None:
        """Keep the end of what it says, so that it never waits for a reader."""
        while True:
            await anyio.wait_readable(self._heard)
            data = _read(self._heard)
            if data == b"":
                return
            self._said.add(data or b"")

    async def _hear_signals(self, limit: anyio.CancelScope) -> None:
        with anyio.open_signal_receiver(*_TOLD_TO_STOP) as received:
            if self._is_told:
                self._stop(limit)
            async for _ in received:
                self._stop(limit)

    async def _watch_parent(self, limit: anyio.CancelScope) -> None:
        while True:
            await anyio.wait_readable(0)
            if not os.read(0, _CHUNK):
                self._stop(limit)
                return

    def _stop(self, limit: anyio.CancelScope) -> None:
        self._why = self._why or "it was told to stop"
        limit.cancel()

    def _outcome(self, error: str | None, child: Child | None = None) -> dict[str, Any]:
        """What came of it; its own words, and an error's, without what looks like a secret."""
        with contextlib.suppress(OSError):
            self._said.add(_read(self._heard) or b"")
        count = None
        if error is None and child is not None:
            count, error = self._verdict(child)
        secrets = {name: value for name, value in self._orders.environment.items() if name not in BASE_ENVIRONMENT}
        said = redact(self._said.whole_lines(), None, secrets)[-_SAID_LENGTH:]
        error = None if error is None else bounded(redact(error, None, secrets), _ERROR_LENGTH)
        return {"count": count, "error": error, "said": said, "strays": 0}

    def _verdict(self, child: Child) -> tuple[int | None, str | None]:
        how = describe_exit(child.returncode)
        if self._orders.command:
            return None, None if child.returncode == 0 else how
        try:
            told = json.loads((_read(self._told) or b"")[:_TOLD_BYTES])
            count, error = told.get("count"), told.get("error")
        except (ValueError, AttributeError, RecursionError):
            return None, f"its process ended without a word: {how}"
        if type(count) not in (int, NoneType) or type(error) not in (str, NoneType):
            return None, f"what it said is no verdict: {how}"
        return count, error


def _read(descriptor: int) -> bytes | None:
    """What is there; empty at the end, None when there is nothing yet."""
    try:
        return os.read(descriptor, _CHUNK)
    except BlockingIOError:
        return None


if __name__ == "__main__":
    main()
