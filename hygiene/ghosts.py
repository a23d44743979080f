"""Processes whose owner is gone. Every process of a worker carries its id in the environment, and so do its descendants.

That tag, not a pid, is what aims the kill: a stranger has none, and another installation's has another. The first process
of all, the caller and its ancestors are exempt, tagged or not: a stoker command inside a handler does not end itself.
"""

import re
import signal
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial

from stoker.hygiene.identity import look
from stoker.hygiene.kinship import line_of_descent, send, table

_UUID = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_BOUND_SECONDS = 5.0
_TICK_SECONDS = 0.01
_LOOK_SECONDS = 0.25


@dataclass(frozen=True, slots=True)
class Ghost:
    """A living, tagged process: which worker it belongs to."""

    pid: int
    name: str
    worker: str
    start_ticks: int


def find_ghosts(installation: str, legitimate: Callable[[set[str]], set[str]]) -> list[Ghost]:
    """Tagged processes of this installation on this host, whose worker is not among the ``legitimate`` ones.

    Empty where environments cannot be read: another user's, or no /proc.
    """
    found = _tagged(installation)
    alive = legitimate({ghost.worker for ghost in found}) if found else set()
    return [ghost for ghost in found if ghost.worker not in alive]


def reap(workers: Collection[str], installation: str, grace_seconds: float) -> list[Ghost]:
    """End every process of ``workers`` on this host: TERM, grace, KILL, until none is left; those that were ended.

    Returns at most 5 s after the grace. Whoever could not be ended is not among the answers.
    """
    wanted, ended = set(workers), dict[tuple[int, int], Ghost]()
    forced = time.monotonic() + grace_seconds
    if not wanted:
        return []
    while True:
        living = {(ghost.pid, ghost.start_ticks): ghost for ghost in _tagged(installation) if ghost.worker in wanted}
        now = time.monotonic()
        if not living or now > forced + _BOUND_SECONDS:
            return [ghost for who, ghost in ended.items() if who not in living]
        for who, ghost in living.items():
            if now >= forced or who not in ended:
                send(ghost.pid, signal.SIGKILL if now >= forced else signal.SIGTERM, partial(_is_still, ghost, installation))
                ended[who] = ghost
        _await_end(list(living), now + _LOOK_SECONDS if now >= forced else min(forced, now + _LOOK_SECONDS))


def _await_end(living: list[tuple[int, int]], until: float) -> None:
    while any((stat := look(pid)) and stat.is_living and stat.start_ticks == started for pid, started in living):
        if time.monotonic() >= until:
            return
        time.sleep(_TICK_SECONDS)


def _tagged(installation: str) -> list[Ghost]:
    exempt, found = line_of_descent(), list[Ghost]()
    for pid, stat in table().items():
        if stat.is_living and pid not in exempt and (worker := _worker(pid, installation)):
            found.append(Ghost(pid, _command(pid), worker, stat.start_ticks))
    return found


def _is_still(ghost: Ghost, installation: str) -> bool:
    return _worker(ghost.pid, installation) == ghost.worker


def _worker(pid: int, installation: str) -> str | None:
    """The id of the worker that ``pid`` belongs to in this installation, by its environment."""
    variables = _read(pid, "environ").split(b"\0")
    if f"STOKER_INSTALLATION={installation}".encode() not in variables:
        return None
    worker = next((v[14:].decode("ascii", "replace") for v in variables if v.startswith(b"STOKER_WORKER=")), "")
    return worker if _UUID.fullmatch(worker) else None


def _command(pid: int) -> str:
    return _read(pid, "comm").decode("utf-8", "replace").strip() or "?"


def _read(pid: int, name: str) -> bytes:
    try:
        with open(f"/proc/{pid}/{name}", "rb", buffering=0) as file:  # noqa: PTH123 - quicker than paths
            return file.readall()
    except OSError:
        return b""
