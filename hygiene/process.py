"""The one door through which stoker starts processes, and how it ends them, with everything under them.

Signals go through pidfds, so that a recycled pid never gets one.
"""

import contextlib
import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import anyio

from stoker.hygiene.identity import parent_of, stat_fields

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_UNKILLABLE_SECONDS = 5.0
_POLL_SECONDS = 0.02
_libc = ctypes.CDLL(None, use_errno=True)
_owned: set[int] = set()

Stream = int | IO[bytes] | None


@dataclass(slots=True)
class Child:
    """A process that was started here."""

    popen: subprocess.Popen[bytes]
    _pidfd: int = field(default=-1)

    @property
    def pid(self) -> int:
        """Its pid; still its own as long as it was not reaped."""
        return self.popen.pid

    @property
    def returncode(self) -> int | None:
        """Exit status, or minus the signal; None while it lives or was not looked at."""
        return self.popen.returncode

    def poll(self) -> int | None:
        """Look, and reap it if it has ended."""
        if self.popen.poll() is not None:
            _owned.discard(self.pid)
        return self.popen.returncode

    async def wait(self) -> int:
        """Wait for its end, and reap it. One waiter at a time."""
        while self.poll() is None:
            if self._pidfd >= 0:
                await anyio.wait_readable(self._pidfd)
            else:
                await anyio.sleep(_POLL_SECONDS)
        self.close()
        return self.popen.returncode

    def close(self) -> None:
        """Let the pidfd go. Not before a waiter has woken: a closed descriptor wakes nobody."""
        if self._pidfd >= 0:
            os.close(self._pidfd)
            self._pidfd = -1

    def __del__(self) -> None:
        """A child that nobody waited for leaves no descriptor behind."""
        self.close()


@dataclass(frozen=True, slots=True)
class TreeEnd:
    """How the end of a tree went: processes killed by force, and those that could not be."""

    killed: int
    unkillable: tuple[int, ...]


def spawn(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: str | None = None,
    stdin: Stream = subprocess.DEVNULL,
    stdout: Stream = None,
    stderr: Stream = None,
    pass_fds: Sequence[int] = (),
    die_with_parent: bool,
) -> Child:
    """Start ``argv``, without a shell, in a session of its own, with exactly ``env``. Raises OSError."""
    popen = subprocess.Popen(
        list(argv),
        env=dict(env),
        cwd=cwd,
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        pass_fds=tuple(pass_fds),
        close_fds=True,
        start_new_session=True,
        preexec_fn=_Preparation(os.getpid(), die_with_parent),
    )
    _owned.add(popen.pid)
    return Child(popen, _open_pidfd(popen.pid))


def become_subreaper() -> None:
    """Whatever is orphaned below this process becomes its child, so that it can be found. Exit statuses are kept."""
    if signal.getsignal(signal.SIGCHLD) == signal.SIG_IGN:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    with contextlib.suppress(AttributeError):
        _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def describe_exit(returncode: int | None) -> str:
    """``exit status 3``, ``SIGKILL``, or ``no exit status``."""
    if returncode is None:
        return "no exit status"
    if returncode >= 0:
        return f"exit status {returncode}"
    try:
        return signal.Signals(-returncode).name
    except ValueError:
        return f"signal {-returncode}"


def descendants(root: int) -> list[int]:
    """Every living process below ``root``; empty where that cannot be told."""
    children: dict[int, list[int]] = {}
    for pid in _pids():
        parent = parent_of(pid)
        if parent is not None:
            children.setdefault(parent, []).append(pid)
    found, stack = [], [root]
    while stack:
        for pid in children.get(stack.pop(), []):
            stack.append(pid)
            if not _is_zombie(pid):
                found.append(pid)
    return found


async def end_tree(child: Child, *, grace_seconds: float) -> TreeEnd:
    """TERM to ``child`` and everything under it, wait up to ``grace_seconds``, KILL until nothing is left; reap."""
    tree = [child.pid, *descendants(child.pid)] if child.poll() is None else []
    for pid in tree:
        send(pid, signal.SIGTERM)
    deadline = time.monotonic() + grace_seconds
    while time.monotonic() < deadline and any(_is_living(pid) for pid in tree):
        child.poll()
        await anyio.sleep(_POLL_SECONDS)
    return await _kill(child, tree)


async def _kill(child: Child, tree: list[int]) -> TreeEnd:
    killed: set[int] = set()
    deadline = time.monotonic() + _UNKILLABLE_SECONDS
    while True:
        below = descendants(child.pid) if child.poll() is None else []
        living = [pid for pid in {child.pid, *tree, *below} if _is_living(pid)]
        if not living or time.monotonic() > deadline:
            return TreeEnd(len(killed), tuple(living))
        for pid in living:
            send(pid, signal.SIGKILL)
            killed.add(pid)
        tree = list({*tree, *below})
        await anyio.sleep(_POLL_SECONDS)


def end_strays(keep: Collection[int] = ()) -> int:
    """Kill every descendant that is neither in ``keep`` nor below it, and reap what was adopted; how many were killed."""
    me, killed = os.getpid(), set[int]()
    deadline = time.monotonic() + _UNKILLABLE_SECONDS
    while True:
        below = descendants(me)  # looked at first: what a kept process starts from now on is not among them
        kept = {pid for root in keep for pid in (root, *descendants(root))}
        strays = [pid for pid in below if pid not in kept and pid not in _owned and not _is_embedded_server(pid)]
        _reap_adopted(me)
        if not strays or time.monotonic() > deadline:
            return len(killed)
        for pid in strays:
            send(pid, signal.SIGKILL)
            killed.add(pid)
        time.sleep(0.002)


def _is_embedded_server(pid: int) -> bool:
    """Whether this is an embedded PostgreSQL, which a stoker command inside a handler may have started: it stays up."""
    try:
        name = Path(f"/proc/{pid}/comm").read_text("utf-8", "replace").strip()
        return name == "postgres" and Path(f"/proc/{pid}/cwd").readlink().match("*/.stoker/data")
    except OSError:
        return False


def send(pid: int, number: int) -> bool:
    """Signal a process that was just seen; False when it is gone or not ours."""
    try:
        pidfd = os.pidfd_open(pid)
    except AttributeError:
        return _send_plainly(pid, number)
    except OSError:
        return False
    try:
        signal.pidfd_send_signal(pidfd, number)
    except OSError:
        return False
    finally:
        os.close(pidfd)
    return True


def _send_plainly(pid: int, number: int) -> bool:
    try:
        os.kill(pid, number)
    except OSError:
        return False
    return True


def _reap_adopted(me: int) -> None:
    """Reap zombies that are children of this process but were not started here; others' exit statuses stay."""
    for pid in _pids():
        if pid not in _owned and parent_of(pid) == me and _is_zombie(pid):
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)


def _pids() -> list[int]:
    try:
        return [int(name) for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208 - quicker than paths
    except OSError:
        return []


def _is_zombie(pid: int) -> bool:
    fields = stat_fields(pid)
    return fields is not None and fields[0] in ("Z", "X")


def _is_living(pid: int) -> bool:
    fields = stat_fields(pid)
    return fields is not None and fields[0] not in ("Z", "X")


def _open_pidfd(pid: int) -> int:
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return -1


class _Preparation:
    """What is done in the child before its program starts: die with the parent, and signals as they are by default."""

    def __init__(self, parent: int, die_with_parent: bool) -> None:
        self._parent = parent
        self._die_with_parent = die_with_parent

    def __call__(self) -> None:
        for number in (signal.SIGCHLD, signal.SIGPIPE, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        if self._die_with_parent and hasattr(_libc, "prctl"):
            _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
            if os.getppid() != self._parent:
                os._exit(1)
