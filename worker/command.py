"""The pen of a mode whose runner is the user's own program: one process a task, no shell.

The program gets the payload as JSON on standard input and who it is in STOKER_TASK, STOKER_ATTEMPT, STOKER_MODE and
STOKER_DELIVERY_ID. Some lines of its standard output mean something (listener.py); every other line, and standard error,
is kept as output. Its exit status is the verdict: 0 done, 75 try again, 65 and 78 failed for good, any other a failed
attempt. With 0 or 75 it may have asked for a snooze, or for a person.
"""

import errno
import json
import os
import shutil
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import anyio

from stoker.hygiene.process import Child, describe_exit, end_strays, end_tree, spawn
from stoker.worker.book import DONE, FAILED, HELD, SNOOZE, Book, Claim, Entry
from stoker.worker.listener import Listener
from stoker.worker.notices import Notices, Subject
from stoker.worker.orders import Orders
from stoker.worker.over import Death, Over
from stoker.worker.pipes import Pipes
from stoker.worker.redact import last_line
from stoker.worker.task import delivery_id_of

TRY_AGAIN = 75
PERMANENT = frozenset({65, 78})
_BRIEF_SECONDS = 0.02
_UNUSABLE = frozenset({errno.ENOENT, errno.ENOEXEC, errno.EACCES, errno.ENOTDIR, errno.EISDIR})


@dataclass(slots=True)
class _Turn:
    """One task in its turn: its entry, where its claim keeps it, and its payload."""

    entry: Entry
    claim: Claim
    place: int
    payload: str
    seconds: float = 0.0


@dataclass(slots=True)
class CommandPen:
    """Has the interface of ``Pen``; here a death is a program that was ended from outside."""

    orders: Orders
    environment: dict[str, str]
    book: Book
    wake: Callable[[], None]
    notices: Notices = field(default_factory=Notices)
    starts: int = 0
    ready: bool = False
    broken: str | None = None
    dead: bool = False
    _program: str = ""
    _waiting: deque[_Turn] = field(default_factory=deque)
    _over: list[_Turn] = field(default_factory=list)
    _more: anyio.Event = field(default_factory=anyio.Event)
    _called_off: anyio.Event = field(default_factory=anyio.Event)
    _asking: anyio.CancelScope | None = None
    _current: _Turn | None = None
    _child: Child | None = None
    _started: float = 0.0
    _is_ending: bool = False
    _is_retired: bool = False
    _exists: bool = False
    _how: str = ""

    def start(self) -> None:
        """Look for the program, beside config.toml or on the PATH."""
        program = self.orders.mode.command[0]
        beside = os.path.join(self.orders.folder, program)  # noqa: PTH118 - which() takes text
        path = self.environment.get("PATH", os.defpath)
        found = shutil.which(beside) if os.sep in program else None
        self._program = found or shutil.which(program, path=path) or ""
        self.ready = bool(self._program) and not self.orders.mode.health
        self.broken = None if self._program else f"program {program!r} is not found or not executable"
        self.dead, self._is_ending, self._is_retired, self._how = False, False, False, ""
        self._exists = True
        self.starts += 1

    async def attend(self) -> None:
        """Run what is fed, one program after the other, until one is ended from outside or there is no more."""
        if self.orders.mode.health and not self.broken:
            await self._ask()
        while not (self._is_ending or self._is_retired or self.broken):
            if not self._waiting:
                await self._more.wait()
                self._more = anyio.Event()
                continue
            self._current = self._waiting.popleft()
            await self._run(self._current)
            if not self._is_ending:
                self._over.extend([] if self.broken else [self._current])
                self._current = None
            if self._is_ending or not self._waiting:
                self.wake()  # else the shift looks soon enough by itself
        self.dead = True
        self.wake()

    async def feed(self, claim: Claim) -> None:
        """Hand over a claim."""
        payloads = (text for chunk in claim.chunks for text in chunk.texts())
        self._waiting.extend(
            _Turn(claim.entry(place), claim, place, payload) for place, payload in enumerate(payloads) if claim.is_open(place)
        )
        self._more.set()

    async def answer(self, runner: int, line: bytes) -> None:
        """A program asks nothing."""

    def call_off(self, claim: Claim, place: int) -> bool:
        """End the program of this task; False when it does not run."""
        turn = self._current
        runs = turn is not None and turn.claim is claim and turn.place == place
        if runs:
            self._called_off.set()
        return runs

    def harvest(self) -> Over:
        """The tasks that are over, with their verdicts."""
        turns, self._over = self._over, []
        for turn in turns:
            turn.claim.end(turn.place)
            turn.claim.busy_seconds += turn.seconds if turn.entry.is_plain else 0.0
        self.book.forget()
        return Over(len(turns), sum(turn.seconds for turn in turns), [turn.entry for turn in turns])

    def running(self) -> float | None:
        """For how many seconds the program has been running; None between tasks."""
        return time.monotonic() - self._started if self._current else None

    def stuck(self) -> float:
        """For how many seconds no other program could be started."""
        return self.running() or 0.0

    def is_silent(self) -> bool:
        """Never: here it is the keeper that starts what was fed."""
        return False

    def is_garbled(self) -> bool:
        """Never: there is no page."""
        return False

    def take_back(self) -> list[tuple[Claim, int]]:
        """What it was fed and has not started, which it will not start any more."""
        turns, self._waiting = self._waiting, deque()
        return [(turn.claim, turn.place) for turn in turns]

    async def retire(self, grace_seconds: float) -> None:
        """There is no more: end what runs."""
        self._is_retired = True
        if self._asking is not None:
            self._asking.cancel()
        if self._current:
            await self.end(grace_seconds)
        self._more.set()

    async def end(self, grace_seconds: float) -> None:
        """End the program that runs, and the tree under it."""
        self._is_ending = True
        if self._asking is not None:
            self._asking.cancel()
        self._more.set()
        if self._child is not None:
            await end_tree(self._child, grace_seconds=grace_seconds)

    def bury(self) -> Death:
        """The task that was ended, if any; what was not started is unfed again."""
        victim, self._current = self._current, None
        over = self.harvest()
        self._waiting.clear()
        if victim is not None:
            victim.entry.verdict = FAILED
            victim.claim.end(victim.place)
        self.book.take_back()
        self._exists = False
        seconds = time.monotonic() - self._started
        return Death(self._how or "ended", [(victim.entry, seconds)] if victim else [], over)

    def close(self) -> None:
        """Nothing is kept open between tasks."""

    @property
    def exists(self) -> bool:
        """Whether this was started and not buried."""
        return self._exists

    async def _ask(self) -> None:
        """Whether the mode can do its work here; until that is known nothing is claimed."""
        from stoker.worker.asking import ask
        from stoker.worker.health import as_stored

        mode = self.orders.mode
        with anyio.CancelScope() as self._asking:
            words = await ask(mode.health, self.orders.folder, self.environment)
            self.broken = None if words is None else as_stored(words, mode.errors, mode.secrets())
            self.ready = words is None
        self._asking = None
        self.wake()

    async def _run(self, turn: _Turn) -> None:
        entry = turn.entry
        self._started, self._called_off = time.monotonic(), anyio.Event()
        is_spoken = not self.orders.mode.is_plain
        pipes = Pipes(turn.payload.encode() if is_spoken else b"")
        try:
            child = self._child = self._spawn(turn.entry, pipes)
        except OSError as error:
            if error.errno in _UNUSABLE:
                self.broken = f"program {self._program!r} cannot be started: {os.strerror(error.errno or 0)}"
            entry.said, entry.error_kind, entry.error = FAILED, "not started", os.strerror(error.errno or 0)
            return
        subject = Subject(turn.claim.token, entry.id, entry.attempt)
        limits = self.orders.output_limit, self.orders.result_limit
        listener = Listener(*limits, lambda fraction, text: self.notices.tell(subject, fraction, text))
        with anyio.move_on_after(_BRIEF_SECONDS if pipes.give_some() else 0):
            await child.wait()
        if child.returncode is None:
            async with anyio.create_task_group() as group:
                group.start_soon(pipes.give)
                group.start_soon(listener.hear, pipes.output, is_spoken)
                group.start_soon(listener.hear, pipes.errors, False)
                group.start_soon(self._obey, child)
                await child.wait()
                end_strays()
                group.cancel_scope.cancel()
        else:
            end_strays()
        listener.drain_some(pipes.output, is_output=is_spoken)
        listener.drain_some(pipes.errors, is_output=False)
        listener.end()
        pipes.close()
        self._child = None
        self._judge(turn, child.returncode, listener)

    async def _obey(self, child: Child) -> None:
        await self._called_off.wait()
        await end_tree(child, grace_seconds=self.orders.grace)

    def _spawn(self, entry: Entry, pipes: Pipes) -> Child:
        identity = {
            "STOKER_TASK": str(entry.id),
            "STOKER_ATTEMPT": str(entry.attempt),
            "STOKER_DELIVERY_ID": str(delivery_id_of(self.orders.installation, entry.id)),
        }
        try:
            theirs = pipes.open()
            return spawn(
                [self._program, *self.orders.mode.command[1:]],
                env={**self.environment, **identity},
                cwd=self.orders.folder,
                stdin=theirs[0],
                stdout=theirs[1],
                stderr=theirs[2],
                die_with_parent=True,
            )
        except BaseException:
            pipes.close()
            raise
        finally:
            pipes.close_theirs()

    def _judge(self, turn: _Turn, returncode: int | None, listener: "Listener") -> None:
        entry = turn.entry
        self._how = describe_exit(returncode)
        seconds = time.monotonic() - self._started
        turn.seconds = seconds
        entry.output = listener.text()
        if returncode in (0, TRY_AGAIN) and (listener.question or listener.snooze is not None):
            entry.said, entry.seconds = HELD if listener.question else SNOOZE, seconds
            entry.error, entry.delay = listener.question, listener.snooze
        elif returncode != 0:
            entry.said, entry.error_kind, entry.seconds = FAILED, self._how, seconds
            mode = self.orders.mode
            said = "" if mode.is_plain else listener.errors()
            entry.error = last_line(said, mode.errors, _value(turn.payload), mode.secrets()) or self._how
            entry.is_permanent = returncode in PERMANENT
            entry.is_retriable = returncode == TRY_AGAIN
        elif listener.complaint:
            entry.said, entry.error_kind, entry.error = FAILED, *listener.complaint
            entry.is_permanent, entry.seconds = True, seconds
        else:
            entry.said, entry.result = DONE, listener.result
            entry.seconds = seconds if seconds > 0.1 or entry.result else None
            entry.label = listener.label(self.orders.mode.label)


def _value(payload: str) -> Any:
    try:
        return json.loads(payload)
    except (ValueError, RecursionError):
        return None
