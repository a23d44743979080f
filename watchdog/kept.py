"""What is kept while the database is away: in a file, for who comes next, and in memory, for where it cannot be written.

The file is replaced as a whole, and changed under a lock beside it: the watchdog and who acknowledges are two processes.
One that cannot be read, or holds what nobody wrote, begins anew, and is never taken for "all is well".
"""

import fcntl
import json
import math
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from copy import deepcopy
from pathlib import Path
from typing import Any

State = dict[str, Any]
_LOCK_SECONDS = 5.0


class Kept:
    """One file. ``trouble``: why it could not be written, when last tried."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.trouble = ""
        self._memory: State = {}
        self._is_lost = False
        self._own = threading.RLock()

    def read(self) -> State:
        """What was kept; by this process itself where the file cannot be used."""
        self._is_lost = False
        if not self.trouble:
            with suppress(OSError, ValueError, RecursionError):
                state = json.loads(self.path.read_text("utf-8"))
                if _is_whole(state):
                    return dict(state)
            self._is_lost = bool(self._memory)
        return deepcopy(self._memory)

    @contextmanager
    def changing(self) -> Iterator[State]:
        """The state to change in place, which nobody else does meanwhile; kept afterwards if it is another one."""
        with self._own, self._locked():
            state = self.read()
            before, is_lost = deepcopy(state), self._is_lost
            yield state
            if state != before or is_lost or self.trouble:
                self._write(state)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Where there can be no lock there is no file to keep whole either: that is found out by writing it."""
        lock = -1
        with suppress(OSError):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            lock = os.open(self._beside("lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            _wait_for(lock)
        try:
            yield
        finally:
            if lock >= 0:
                os.close(lock)

    def _beside(self, ending: str) -> Path:
        return self.path.with_name(f"{self.path.name}.{ending}")

    def _write(self, state: State) -> None:
        """The whole file, or the old one."""
        self._memory, self.trouble = deepcopy(state), ""
        beside = self._beside(str(os.getpid()))
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            beside.write_text(json.dumps(state), "utf-8")
            beside.replace(self.path)
        except OSError as error:
            self.trouble = f"{self.path} cannot be written: {error.strerror or error}"
            with suppress(OSError):
                beside.unlink()


def _wait_for(lock: int) -> None:
    """Not for ever: whoever holds it may have been stopped."""
    until = time.monotonic() + _LOCK_SECONDS
    while time.monotonic() < until:
        with suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        time.sleep(0.01)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_texts(value: object) -> bool:
    return isinstance(value, list) and all(map(_is_text, value))


def _is_away(value: object) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(map(_is_number, value))


def _is_table(value: object, kinds: Mapping[str, Callable[[Any], bool]]) -> bool:
    return isinstance(value, dict) and set(value) == set(kinds) and all(kind(value[name]) for name, kind in kinds.items())


def _is_ack(value: object) -> bool:
    return _is_table(value, {"by": _is_text, "at": _is_number, "reason": _is_text})


def _is_page(value: object) -> bool:
    kinds = {"action": _is_text, "words": _is_text, "delivery_id": _is_text, "number": _is_number, "waiting": _is_texts}
    return _is_table(value, kinds)


_KINDS: dict[str, Callable[[Any], bool]] = {
    "installation": _is_text,
    "since": _is_number,
    "why": _is_text,
    "paged": _is_number,
    "escalated": lambda value: isinstance(value, bool),
    "acked": _is_ack,
    "pages": _is_number,
    "page": _is_page,
    "told": _is_texts,
    "sending": _is_texts,
    "away": _is_away,
}


def _is_whole(state: object) -> bool:
    return isinstance(state, dict) and all(name not in state or kind(state[name]) for name, kind in _KINDS.items())
