"""Processes whose owner is gone. Every process of a worker carries its id in the environment, and so do its descendants.

That tag, not a pid, is what aims the kill: a stranger has none, and another installation's has another.
"""

import os
import re
import signal
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

from stoker.hygiene.identity import parent_of, stat_fields
from stoker.hygiene.process import send

_UUID = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_POLL_SECONDS = 0.01
_BOUND_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Ghost:
    """A tagged process: which worker it belongs to."""

    pid: int
    name: str
    worker: str


def find_ghosts(installation: str, legitimate: Callable[[set[str]], set[str]]) -> list[Ghost]:
    """Tagged processes of this installation on this host, whose worker is not among the ``legitimate`` ones."""
    found = _tagged(installation)
    alive = legitimate({ghost.worker for ghost in found}) if found else set()
    return [ghost for ghost in found if ghost.worker not in alive]


def reap(workers: Collection[str], installation: str, grace_seconds: float) -> list[Ghost]:
    """End every process of ``workers`` on this host: TERM, grace, KILL, until none is left; those that were ended."""
    wanted, ended = set(workers), dict[int, Ghost]()
    started = time.monotonic()
    while True:
        living = [ghost for ghost in _tagged(installation) if ghost.worker in wanted]
        age = time.monotonic() - started
        if not living or age > grace_seconds + _BOUND_SECONDS:
            return list(ended.values())
        for ghost in living:
            if ghost.pid not in ended or age > grace_seconds:
                send(ghost.pid, signal.SIGKILL if age >= grace_seconds else signal.SIGTERM)
                ended[ghost.pid] = ghost
        time.sleep(_POLL_SECONDS)


def _tagged(installation: str) -> list[Ghost]:
    mark, exempt = f"STOKER_INSTALLATION={installation}".encode(), _line_of_descent()
    found = []
    for name in os.listdir("/proc") if Path("/proc/self/environ").exists() else ():  # noqa: PTH208 - quicker than paths
        if not name.isdigit() or int(name) in exempt:
            continue
        try:
            variables = Path(f"/proc/{name}/environ").read_bytes().split(b"\0")
        except OSError:
            continue
        fields = stat_fields(int(name))
        if mark in variables and fields is not None and fields[0] not in ("Z", "X"):
            worker = next((v[14:].decode("ascii", "replace") for v in variables if v.startswith(b"STOKER_WORKER=")), "")
            if _UUID.fullmatch(worker):
                found.append(Ghost(int(name), _command(name), worker))
    return found


def _line_of_descent() -> set[int]:
    """This process and its ancestors: a stoker command run inside a handler must not end itself."""
    line, pid = set[int](), os.getpid()
    while pid and pid not in line:
        line.add(pid)
        pid = parent_of(pid) or 0
    return line


def _command(pid: str) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text("utf-8", "replace").strip()
    except OSError:
        return "?"
