"""A signal that comes while a fire is being opened or closed is kept, not died of: it is obeyed a moment later."""

import signal
import threading
from types import FrameType
from typing import Any

_KEPT = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class Latch:
    """Keeps signals from ``hold`` to ``let_go``. ``number`` is that of the last that came; 0: none."""

    def __init__(self) -> None:
        self.number = 0
        self._before: dict[int, Any] = {}

    def hold(self) -> None:
        """Keep what comes from now on; also again, after somebody else has handled signals meanwhile."""
        if threading.current_thread() is not threading.main_thread():
            return
        for number in _KEPT:
            handler = signal.signal(number, self._keep)
            self._before.setdefault(number, handler)

    def let_go(self) -> None:
        """Let signals do what they did before."""
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before.clear()

    def _keep(self, number: int, frame: FrameType | None) -> None:
        del frame
        self.number = number
