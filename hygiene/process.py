"""The one door through which stoker starts processes; how it ends them is in ending.py, and offered here too."""

import contextlib
import ctypes
import fcntl
import os
import signal
import subprocess
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import IO

import anyio

from stoker.hygiene.ending import TreeEnd, end_strays, end_tree, kill_tree_now, owned
from stoker.hygiene.kinship import descendants

__all__ = [
    "STATUS_LOST",
    "Child",
    "Reaped",
    "TreeEnd",
    "become_subreaper",
    "descendants",
    "describe_exit",
    "end_strays",
    "end_tree",
    "kill_tree_now",
    "spawn",
]

STATUS_LOST = -256  # somebody else took the exit status: this is never to be read as 0
_PR_SET_CHILD_SUBREAPER = 36
_F_SETSIG = 10
_HAS_BONDS = sys.platform == "linux"
_POLL_SECONDS = 0.02
_CATCHABLE = tuple(sorted(signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}))
_prctl = getattr(ctypes.CDLL(None), "prctl", None)
if _prctl is not None:
    _prctl.argtypes = [ctypes.c_int, *[ctypes.c_ulong] * 4]

Stream = int | IO[bytes] | None


class Reaped(ABC):
    """A child of this process. Whoever lets it go while it lives gives it up: it is a stray from then on."""

    __slots__ = ("__weakref__", "_pidfd")
    _pidfd: int

    @property
    @abstractmethod
    def pid(self) -> int:
        """Its pid; still its own as long as it was not reaped."""

    @property
    @abstractmethod
    def returncode(self) -> int | None:
        """Exit status, or minus the signal; None while it lives or was not looked at."""

    @abstractmethod
    def _record(self, code: int | None) -> None:
        """Keep the exit status."""

    def poll(self) -> int | None:
        """Look, and reap it if it has ended. ``STATUS_LOST`` where Popen.poll would answer 0 for a status it never saw."""
        if self.returncode is None:
            try:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
            except ChildProcessError:
                self._record(STATUS_LOST)
            else:
                self._record(os.waitstatus_to_exitcode(status) if pid else None)
        return self.returncode

    async def wait(self) -> int:
        """Wait for its end, and reap it. One waiter at a time; cancelled (``anyio.move_on_after``), it leaves it as it is."""
        while (code := self.poll()) is None:
            if self._pidfd >= 0:
                await anyio.wait_readable(self._pidfd)
            else:
                await anyio.sleep(_POLL_SECONDS)
        self.close()
        return code

    def terminate(self) -> None:
        """TERM, if it lives: its pid is its own until it is reaped."""
        if self.poll() is None:
            os.kill(self.pid, signal.SIGTERM)

    def close(self) -> None:
        """Let the pidfd go. Not before a waiter has woken: a closed descriptor wakes nobody."""
        if self._pidfd >= 0:
            os.close(self._pidfd)
            self._pidfd = -1

    def __del__(self) -> None:
        """A child that nobody waited for leaves no descriptor behind."""
        self.close()


@dataclass(slots=True, eq=False)
class Child(Reaped):
    """A process that was started here."""

    popen: subprocess.Popen[bytes]
    _pidfd: int
    _bond: "_Bond | None" = None

    @property
    def pid(self) -> int:
        """Its pid; still its own as long as it was not reaped."""
        return self.popen.pid

    @property
    def returncode(self) -> int | None:
        """Exit status, or minus the signal; None while it lives or was not looked at."""
        return self.popen.returncode

    @property
    def stdin(self) -> IO[bytes] | None:
        """The pipe to its standard input, if there is one."""
        return self.popen.stdin

    @property
    def stderr(self) -> IO[bytes] | None:
        """The pipe from its standard error, if there is one."""
        return self.popen.stderr

    def close(self) -> None:
        """Let the pidfd go, and the bond."""
        if self._bond is not None:
            self._bond.close()
        Reaped.close(self)

    def _record(self, code: int | None) -> None:
        self.popen.returncode = code


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
    """Start ``argv``, without a shell, in a session of its own, with exactly ``env`` and signals as they are by default.

    ``die_with_parent``: the kernel kills it, and whoever is in its process group, when this process dies, however.
    Raises OSError when it cannot be started.
    """
    _keep_exit_statuses()
    bond = _Bond() if die_with_parent and _HAS_BONDS else None
    with _plain_signals():
        try:
            popen = subprocess.Popen(
                list(argv),
                env=dict(env),
                cwd=cwd,
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                pass_fds=(*pass_fds, *([bond.held] if bond else [])),
                close_fds=True,
                start_new_session=True,
            )
        except BaseException:
            if bond is not None:
                bond.close()
            raise
    if bond is not None:
        bond.tie(popen.pid)
    child = Child(popen, open_pidfd(popen.pid), bond)
    owned[child.pid] = child
    return child


class _Bond:
    """A pipe into which nothing is ever written, and which the child holds open at its reading end.

    When the only writing end is closed, by whatever ends this process, the kernel tells the reading end's owner, with the
    signal that was chosen for it. A parent-death signal would have to be asked for between fork and exec, so that no child
    could be started without a copy of this process's page tables, which takes five times as long (docs/adr/0007).
    """

    def __init__(self) -> None:
        self.held, self._only = os.pipe()

    def tie(self, pid: int) -> None:
        """KILL for the process group of ``pid`` when this process ends."""
        fcntl.fcntl(self.held, fcntl.F_SETOWN, -pid)
        fcntl.fcntl(self.held, _F_SETSIG, int(signal.SIGKILL))
        fcntl.fcntl(self.held, fcntl.F_SETFL, os.O_ASYNC)

    def close(self) -> None:
        """Untie it."""
        if self.held >= 0:
            fcntl.fcntl(self.held, fcntl.F_SETFL, 0)
            os.close(self.held)
            os.close(self._only)
            self.held = self._only = -1


@contextlib.contextmanager
def _plain_signals() -> Iterator[None]:
    """What is ignored here, as under nohup, is caught meanwhile: that a program does not inherit. And nothing is blocked."""
    before = signal.pthread_sigmask(signal.SIG_SETMASK, [])
    ignored = _ignored() if threading.current_thread() is threading.main_thread() else ()
    try:
        for number in ignored:
            signal.signal(number, _pass)
        yield
    finally:
        for number in ignored:
            signal.signal(number, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@cache
def _ignored() -> tuple[int, ...]:
    """What this process was started to ignore. subprocess itself sees to those two that every Python ignores."""
    own = {signal.SIGPIPE, getattr(signal, "SIGXFSZ", signal.SIGPIPE)}
    return tuple(number for number in _CATCHABLE if number not in own and signal.getsignal(number) == signal.SIG_IGN)


def _pass(_number: int, _frame: object) -> None:
    """Hear a signal as if it were ignored."""


def become_subreaper() -> bool:
    """Whatever is orphaned below this process becomes its child, so that it can be found; whether that is so now."""
    _keep_exit_statuses()
    return _prctl is not None and _prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0


def describe_exit(returncode: int | None) -> str:
    """``exit status 3``, ``SIGKILL``, or ``no exit status``."""
    if returncode is None or returncode == STATUS_LOST:
        return "no exit status"
    if returncode >= 0:
        return f"exit status {returncode}"
    try:
        return signal.Signals(-returncode).name
    except ValueError:
        return f"signal {-returncode}"


def _keep_exit_statuses() -> None:
    """Where SIGCHLD is ignored, as some parents leave it, the kernel throws exit statuses away."""
    if signal.getsignal(signal.SIGCHLD) == signal.SIG_IGN and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)


def open_pidfd(pid: int) -> int:
    """A descriptor that becomes readable when ``pid``, a child, has ended; -1 where there is none to be had."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return -1
