"""Who a process is: never a bare pid. A pid counts only with the boot, the pid namespace and the start time it goes with."""

import os
import socket
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

_STATE, _PARENT, _STARTED = 0, 1, 19


@dataclass(frozen=True, slots=True)
class Identity:
    """One process for all time. ``start_ticks`` counts clock ticks since the boot ``boot_id``."""

    host: str
    boot_id: str
    pid_namespace: str
    pid: int
    start_ticks: int


def mine() -> Identity:
    """This process."""
    return _own(os.getpid())


def of(pid: int) -> Identity | None:
    """The process that has ``pid`` now; None when there is none, it is a zombie, or that cannot be told here."""
    stat = stat_fields(pid)
    if stat is None or stat[_STATE] in ("Z", "X"):
        return None
    return Identity(socket.gethostname(), _boot_id(), _pid_namespace(), pid, int(stat[_STARTED]))


def proven_gone(identity: Identity) -> bool:
    """True only when it is certain: same boot, same pid namespace, and no living process with that pid and start."""
    if not identity.boot_id or identity.boot_id != _boot_id() or identity.pid_namespace != _pid_namespace():
        return False
    now = of(identity.pid)
    return now is None or now.start_ticks != identity.start_ticks


def stat_fields(pid: int) -> list[str] | None:
    """/proc/PID/stat from the state on, whatever the process calls itself; None when it cannot be read."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
    except OSError:
        return None
    return text.rpartition(")")[2].split()


def parent_of(pid: int) -> int | None:
    """The parent's pid; None when it cannot be told."""
    fields = stat_fields(pid)
    return int(fields[_PARENT]) if fields else None


@lru_cache(maxsize=4)
def _own(pid: int) -> Identity:
    return of(pid) or Identity(socket.gethostname(), "", "", pid, 0)


@lru_cache(maxsize=1)
def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        return ""


@lru_cache(maxsize=1)
def _pid_namespace() -> str:
    try:
        return str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return ""
