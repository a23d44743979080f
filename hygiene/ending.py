"""How processes are ended: one child with everything under it, or whatever is nobody's.

Force is bounded: a process that cannot be killed is reported, and nobody hangs on it.
"""

import contextlib
import os
import signal
import time
from collections.abc import Collection
from dataclasses import dataclass
from functools import partial
from typing import Protocol
from weakref import WeakValueDictionary

import anyio

from stoker.hygiene.identity import Stat, look, proc_is_ours
from stoker.hygiene.kinship import below, descends, send, table

_UNKILLABLE_SECONDS = 5.0
_TICK_SECONDS = 0.01
_LOOK_SECONDS = 0.25  # between two looks at every process of the host, while those that are known take their time


class Started(Protocol):
    """A child of this process, whose exit status is its owner's to take."""

    @property
    def pid(self) -> int:
        """Its pid."""

    @property
    def returncode(self) -> int | None:
        """None until it was reaped."""

    def poll(self) -> int | None:
        """Reap it if it has ended."""


owned: WeakValueDictionary[int, Started] = WeakValueDictionary()
_given_up: set[tuple[int, int]] = set()


@dataclass(frozen=True, slots=True)
class TreeEnd:
    """How the end of a tree went: how many were killed by force, and the pids of those that could not be."""

    killed: int
    unkillable: tuple[int, ...]


async def end_tree(child: Started, *, grace_seconds: float) -> TreeEnd:
    """TERM to ``child`` and everything under it, once each; after ``grace_seconds`` KILL until nothing is left; reap.

    Returns at most 5 s after the grace. When it is cancelled, the KILL comes at once. What left the child's session and
    lost its parent before it was seen is for ``end_strays``.
    """
    tree = _tree(child)
    try:
        await _ask(tree, grace_seconds)
        return await _force(tree)
    except BaseException:
        _force_now(tree)
        raise


def kill_tree_now(child: Started) -> TreeEnd:
    """KILL ``child`` and everything under it, and reap it; for where there is no time, or no event loop. At most 5 s."""
    return _force_now(_tree(child))


def end_strays(keep: Collection[int] = ()) -> int:
    """Kill whatever descends from this process, a subreaper, and is nobody's; reap what was adopted; how many were killed.

    Somebody's are the children that were started here and live, those in ``keep``, an embedded server, and all below
    them; exit statuses that are somebody's are not touched. Returns after 5 s at most; who could not be killed by then
    is not waited for again.
    """
    me, killed, pause = os.getpid(), set[tuple[int, int]](), 0.001
    deadline = time.monotonic() + _UNKILLABLE_SECONDS
    while not _is_childless():
        spared = {*keep, *(pid for pid, child in owned.items() if child.returncode is None)}
        processes = table()
        spared |= _servers(below([me], processes, spared))
        strays = _strays(me, processes, spared)
        _reap_adopted(processes, spared)
        if not strays and (spared or _given_up):
            break
        if time.monotonic() > deadline:
            _given_up.update(strays)
            return len(killed - strays)
        for pid, started in strays:
            if send(pid, signal.SIGKILL, partial(_is_stray, pid, started, me, spared)):
                killed.add((pid, started))
        time.sleep(pause)
        pause = min(2 * pause, 0.05)
    return len(killed)


class _Tree:
    """What is under one child: by parents, by the session it was started in, and by memory of who was seen."""

    def __init__(self, child: Started) -> None:
        self._child = child
        self._known: dict[int, int] = {}
        self._has_session = child.returncode is None
        self._has_group = False
        self.killed: set[int] = set()

    def living(self) -> list[int]:
        """Look, and reap the child if it has ended. Empty only after two looks: one can miss who is just being born."""
        seen = self._look() or self._look()
        self._has_session = bool(seen) or self._child.returncode is None
        return seen

    def _look(self) -> list[int]:
        if not self._known and not self._has_session:
            return []
        processes = table()
        self._child.poll()  # not before the look: until it is reaped, nobody else can have its number
        session = {pid for pid, stat in processes.items() if self._has_session and stat.session == self._child.pid}
        known = {pid for pid, started in self._known.items() if pid in processes and processes[pid].start_ticks == started}
        members = session | known
        everybody = {*members, *below(members, processes, _servers(below(members, processes)))}
        seen = {pid: processes[pid] for pid in everybody if processes[pid].is_living}
        self._has_group = any(stat.group == self._child.pid for stat in seen.values())
        self._known = {pid: stat.start_ticks for pid, stat in seen.items()}
        return list(seen)

    def is_quiet(self) -> bool:
        """Whether all that were seen at the last look are dead."""
        return not any(_is_same(pid, started) for pid, started in self._known.items())

    def ask(self, told: set[tuple[int, int]]) -> None:
        """TERM, and CONT for those that are stopped, to all that are not among ``told`` yet."""
        for pid, started in self._known.items():
            if (pid, started) not in told:
                told.add((pid, started))
                for number in (signal.SIGTERM, signal.SIGCONT):
                    send(pid, number, partial(_is_same, pid, started))

    def kill(self) -> None:
        """KILL: first the group, at one stroke, so that those who fork cannot get ahead; then the others."""
        if self._has_group:
            with contextlib.suppress(OSError):
                os.killpg(self._child.pid, signal.SIGKILL)
        for pid, started in self._known.items():
            send(pid, signal.SIGKILL, partial(_is_same, pid, started))
            self.killed.add(pid)


class _Group:
    """The same where there is no /proc: the child's process group is all that can be told."""

    def __init__(self, child: Started) -> None:
        self._child = child
        self._is_known = child.returncode is None
        self.killed: set[int] = set()

    def living(self) -> list[int]:
        self._is_known = self._is_known and (self._child.poll() is None or self._signal(0))
        return [self._child.pid] if self._is_known else []

    def is_quiet(self) -> bool:
        return not self.living()

    def ask(self, told: set[tuple[int, int]]) -> None:
        if not told:
            told.add((self._child.pid, 0))
            self._signal(signal.SIGTERM)
            self._signal(signal.SIGCONT)

    def kill(self) -> None:
        self._signal(signal.SIGKILL)
        self.killed.add(self._child.pid)

    def _signal(self, number: int) -> bool:
        try:
            os.killpg(self._child.pid, number)
        except OSError:
            return False
        return True


def _tree(child: Started) -> _Tree | _Group:
    return _Tree(child) if proc_is_ours() else _Group(child)


async def _ask(tree: _Tree | _Group, grace_seconds: float) -> None:
    deadline, told = time.monotonic() + grace_seconds, set[tuple[int, int]]()
    while tree.living():
        tree.ask(told)
        if time.monotonic() >= deadline:
            return
        until = min(deadline, time.monotonic() + _LOOK_SECONDS)
        while time.monotonic() < until and not tree.is_quiet():  # noqa: ASYNC110 - nothing tells of the end of a stranger
            await anyio.sleep(_TICK_SECONDS)


async def _force(tree: _Tree | _Group) -> TreeEnd:
    deadline = time.monotonic() + _UNKILLABLE_SECONDS
    while (living := tree.living()) and time.monotonic() < deadline:
        tree.kill()
        await anyio.sleep(_TICK_SECONDS)
    return TreeEnd(len(tree.killed.difference(living)), tuple(living))


def _force_now(tree: _Tree | _Group) -> TreeEnd:
    deadline = time.monotonic() + _UNKILLABLE_SECONDS
    while (living := tree.living()) and time.monotonic() < deadline:
        tree.kill()
        time.sleep(_TICK_SECONDS)
    return TreeEnd(len(tree.killed.difference(living)), tuple(living))


def _is_same(pid: int, started: int) -> bool:
    stat = look(pid)
    return stat is not None and stat.is_living and stat.start_ticks == started


def _is_stray(pid: int, started: int, me: int, spared: Collection[int]) -> bool:
    return _is_same(pid, started) and descends(pid, me, spared)


def _strays(me: int, processes: dict[int, Stat], spared: Collection[int]) -> set[tuple[int, int]]:
    found = ((pid, processes[pid]) for pid in below([me], processes, spared))
    living = {(pid, stat.start_ticks) for pid, stat in found if stat.is_living}
    _given_up.intersection_update(living)
    return living - _given_up


def _servers(pids: Collection[int]) -> set[int]:
    """The embedded PostgreSQL among them: a stoker command inside a handler may have started it, and it stays up."""
    return {pid for pid in pids if _is_server(pid)}


def _is_server(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/comm", "rb") as file:  # noqa: PTH123 - pathlib costs 4 ms at each start
            name = file.read()
        return name == b"postgres\n" and os.readlink(f"/proc/{pid}/cwd").endswith("/.stoker/data")  # noqa: PTH115
    except OSError:
        return False


def _reap_adopted(processes: dict[int, Stat], spared: Collection[int]) -> None:
    """Reap the dead that are children of this process by now, but not those whose exit status somebody waits for."""
    for pid, stat in processes.items():
        if not stat.is_living and pid not in spared:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)


def _is_childless() -> bool:
    """Whether the kernel says that this process has no child, not even a dead one: then nothing is below it."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return True
    except AttributeError:  # not every system has waitid; without /proc there is nothing to look for either
        return not table()
    return False
