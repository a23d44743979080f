"""Who a process is: never a bare pid. A pid counts only with the boot, the pid namespace and the start time it goes with."""

import os
import time
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

_STAT_BYTES = 4096  # the line has about 330 bytes
_STATE, _PARENT, _GROUP, _SESSION, _THREADS, _STARTED = 0, 1, 2, 3, 17, 19


@dataclass(frozen=True, slots=True)
class Identity:
    """One process for all time. ``start_ticks`` counts clock ticks since the boot ``boot_id``.

    Where that cannot be told (no Linux, another namespace's /proc) ``boot_id`` is empty, and nothing is ever proven.
    """

    host: str
    boot_id: str
    pid_namespace: str
    pid: int
    start_ticks: int


class Stat(NamedTuple):
    """What /proc says of a process at one instant."""

    parent: int
    group: int
    session: int
    start_ticks: int
    is_living: bool


def mine() -> Identity:
    """This process."""
    return _own(os.getpid())


def of(pid: int) -> Identity | None:
    """The process that has ``pid`` now, also a zombie; None when there is none, or that cannot be told here."""
    stat, place = look(pid), _place()
    return Identity(_host(), *place, pid, stat.start_ticks) if stat and place else None


def proven_gone(identity: Identity) -> bool:
    """True only when it is certain: same host, boot and pid namespace, and no living process with that pid and start.

    A zombie is gone. A process that /proc hides (hidepid) is not.
    """
    pid, started = identity.pid, identity.start_ticks
    if not isinstance(pid, int) or not isinstance(started, int) or pid <= 0:
        return False
    if identity.host != _host() or (identity.boot_id, identity.pid_namespace) != _place():
        return False
    stat = look(pid)
    return _is_absent(pid) if stat is None else not stat.is_living or stat.start_ticks != started


def look(pid: int) -> Stat | None:
    """What is known of ``pid``; None when there is none, or it cannot be read. Takes about 10 microseconds.

    A dead first thread is no dead process: it shows as a zombie while the others run on.
    """
    try:
        descriptor = os.open(f"/proc/{pid}/stat", os.O_RDONLY)
    except OSError:
        return None
    try:
        return _parse(os.read(descriptor, _STAT_BYTES))
    except OSError:  # it ended between the two calls
        return None
    finally:
        os.close(descriptor)


@lru_cache(maxsize=1)
def proc_is_ours() -> bool:
    """Whether there is a /proc and its pids mean here what they mean to the kernel; else nothing there is to be trusted."""
    try:
        return os.readlink("/proc/self") == str(os.getpid())  # noqa: PTH115 - pathlib costs 2 ms at each start
    except OSError:
        return False


def proven_alive(identity: Identity) -> bool:
    """True only when it is certain: same host, boot and pid namespace, and that process lives."""
    if identity.host != _host() or (identity.boot_id, identity.pid_namespace) != _place():
        return False
    stat = look(identity.pid)
    return stat is not None and stat.is_living and stat.start_ticks == identity.start_ticks


def _parse(line: bytes) -> Stat | None:
    """The fields behind the last parenthesis: a process may call itself ``a) R (b``."""
    fields = line[line.rfind(b")") + 1 :].split()
    if len(fields) <= _STARTED:
        return None
    is_living = fields[_STATE] not in (b"Z", b"X") or int(fields[_THREADS]) > 1
    return Stat(int(fields[_PARENT]), int(fields[_GROUP]), int(fields[_SESSION]), int(fields[_STARTED]), is_living)


def _is_absent(pid: int) -> bool:
    """Ask the kernel itself, since /proc may hide what belongs to others."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        return False
    return False


@lru_cache(maxsize=1)
def _own(pid: int) -> Identity:
    return of(pid) or Identity(_host(), "", "", pid, 0)


@lru_cache(maxsize=1)
def _place() -> tuple[str, str] | None:
    """The boot and the pid namespace; None where that cannot be told."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:  # noqa: PTH123
            boot = file.read().strip()
        return (boot, os.readlink("/proc/self/ns/pid")) if boot and proc_is_ours() else None  # noqa: PTH115
    except OSError:
        return None


def _host() -> str:
    return os.uname().nodename


def _forget() -> None:
    for cached in (_own, _place, proc_is_ours):
        cached.cache_clear()


os.register_at_fork(after_in_child=_forget)


def age_seconds(start_ticks: int) -> float:
    """How long ago a process of this boot started."""
    clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return time.clock_gettime(clock) - start_ticks / os.sysconf("SC_CLK_TCK")
