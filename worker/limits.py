"""When a worker must stop claiming, when its runner must be ended, and when it must give up. Decides; does nothing."""

from dataclasses import dataclass

EMPTY, CAP, CLOCK, STOPPED, ORPHANED, FENCED, BROKEN, RESPAWNS = (
    "empty",
    "cap",
    "clock",
    "stopped",
    "orphaned",
    "fenced",
    "broken",
    "respawns",
)
TIMEOUT, SILENT, GARBLED = "timeout", "silent", "garbled"
_SILENT_LOOKS = 300
_KILLS = {CLOCK: "wall clock", STOPPED: "stopped", ORPHANED: "stopped", FENCED: "fenced"}


@dataclass(slots=True)
class Limits:
    """One worker's limits, in seconds of the monotonic clock; None is none. ``reason`` says why it claims no more."""

    born: float
    timeout: float | None
    wall_clock: float | None
    grace: float
    reason: str = ""
    _stopped_at: float = 0.0
    _silent: int = 0

    def stop(self, reason: str, now: float) -> None:
        """Claim no more. The first reason stands, except that being fenced overrules every other."""
        if not self.reason:
            self._stopped_at = now
        if not self.reason or reason == FENCED:
            self.reason = reason

    def hurry(self) -> None:
        """The grace is over at once."""
        self._stopped_at = float("-inf")

    def kill(self, task_seconds: float | None, now: float, *, is_silent: bool = False) -> str | None:
        """Why the runner must be ended now, where its task has run for ``task_seconds``; None when it may go on.

        Asked ten times a second. ``is_silent``: it has work and starts none of it, which may last for half a minute;
        looks are counted, not seconds, since a machine that was asleep says nothing about the runner.
        """
        self._silent = self._silent + 1 if is_silent else 0
        if self.wall_clock is not None and now - self.born > self.wall_clock:
            self.stop(CLOCK, now)
        if task_seconds is not None and self.timeout is not None and task_seconds > self.timeout:
            return TIMEOUT
        if self._silent > _SILENT_LOOKS:
            return SILENT
        if self.reason == FENCED or (self.reason in _KILLS and now - self._stopped_at > self.grace):
            return _KILLS[self.reason]
        return None

    def is_over(self, now: float) -> bool:
        """Whether the last limit is over, so that an unreachable database is no reason to live on."""
        past_clock = self.wall_clock is not None and now - self.born > self.wall_clock + self.grace
        return past_clock or bool(self.reason and now - self._stopped_at > self.grace)
