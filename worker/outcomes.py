"""What a handler may return besides a plain result: outcomes as values. Imported by handlers that use them, by no other.

def charge(task: Task[dict[str, str]]) -> Outcome:
    if not quota_left():
        return Snooze(until=3600)
    return Done({"paid": True}, then=[FollowUp("mail", {"to": task.payload["customer"]})])
"""

import math
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from stoker.worker.errors import text_of
from stoker.worker.redact import bounded

LONGEST_SECONDS = 10 * 366 * 86_400
_LAST_YEAR = 9999


class Outcome:
    """What became of one attempt, as its handler says it."""

    __slots__ = ()

    def facts(self) -> dict[str, Any]:
        """What the keeper is told, as JSON values: ``said``, and what goes with it."""
        raise NotImplementedError


class FollowUp:
    """A task to be enqueued in the transaction that settles its parent, and only with it. ``delay`` in seconds or a timedelta.

    Without a version it has the one that is configured. The rest is as with any new task (docs/handlers.md).
    """

    __slots__ = ("columns", "delay_seconds")

    def __init__(
        self,
        mode: str,
        payload: Any = None,
        *,
        priority: int = 0,
        version: int | None = None,
        max_attempts: int | None = None,
        delay: float | timedelta = 0,
        expires_at: datetime | None = None,
        tags: Sequence[str] = (),
        key: str | None = None,
        key_seconds: float = 0.0,
        lane_key: str | None = None,
        needs_approval: bool = False,
    ) -> None:
        self.delay_seconds = _seconds(delay, "delay")
        self.columns: dict[str, Any] = {
            "mode": mode,
            "payload": payload,
            "priority": priority,
            "version": version,
            "max_attempts": max_attempts,
            "expires_at": expires_at,
            "tags": tuple(tags) if not isinstance(tags, str) else tags,
            "key": key,
            "key_seconds": key_seconds,
            "lane_key": lane_key,
            "needs_approval": needs_approval,
        }

    def row(self, modes: Mapping[str, int], payload_limit: int) -> dict[str, Any]:
        """The task as JSON values, its payload as text; raises ValueError for one that is refused, or that no mode would run.

        ``modes`` are those that are configured, with their versions; none means that any will do.
        """
        from stoker.sql.new_task import Door, NewTask, check_columns, check_key
        from stoker.sql.payload import encode

        version = self.columns["version"] or modes.get(self.columns["mode"], 1)
        task = NewTask(**{**self.columns, "version": version})
        check_columns(task, Door(modes=frozenset(modes) if modes else None))
        check_key(task)
        payload = encode(task.payload, payload_limit)
        expires_at = task.expires_at.isoformat() if task.expires_at else None
        more = {"version": version, "tags": list(task.tags) or None, "expires_at": expires_at, "delay": self.delay_seconds}
        return {**self.columns, **more, "payload": payload}


class Done(Outcome):
    """Done, with a result; ``then`` are enqueued in the transaction that settles it, or, if it is refused, not at all."""

    __slots__ = ("result", "then")

    def __init__(self, result: Any = None, then: Sequence[FollowUp] = ()) -> None:
        self.result = result
        self.then = list(then)
        for one in self.then:
            if not isinstance(one, FollowUp):
                raise TypeError(f"then must list FollowUp(mode, payload), and holds {type(one).__name__}")


class Retry(Outcome):
    """This attempt failed; the task is tried again ``after`` seconds, or by the mode's backoff, while attempts are left."""

    __slots__ = ("after_seconds", "reason")

    def __init__(self, after: float | timedelta | None = None, reason: str | BaseException = "") -> None:
        self.after_seconds = None if after is None else _seconds(after, "after")
        self.reason = _words(reason)

    def facts(self) -> dict[str, Any]:
        """As Outcome says."""
        return {"said": "retry", "delay": self.after_seconds, "error": self.reason or None}


class Snooze(Outcome):
    """Not yet, and nobody's fault: the task is tried again at a time, or after so many seconds. No attempt is spent."""

    __slots__ = ("until",)

    def __init__(self, until: datetime | float | timedelta) -> None:
        if isinstance(until, datetime):
            if until.utcoffset() is None:
                raise ValueError("Snooze(until) has no time zone: write datetime.now(UTC) + ..., or a number of seconds")
            if not 1 < until.year < _LAST_YEAR:
                raise ValueError(f"Snooze(until) is beyond the years 2 to {_LAST_YEAR - 1}")
            self.until: str | float = until.isoformat()
        else:
            self.until = _seconds(until, "until")

    def facts(self) -> dict[str, Any]:
        """As Outcome says."""
        when = "until" if isinstance(self.until, str) else "delay"
        return {"said": "snooze", when: self.until}


class Fail(Outcome):
    """Failed for good, whatever attempts are left."""

    __slots__ = ("reason",)

    def __init__(self, reason: str | BaseException) -> None:
        self.reason = _words(reason)

    def facts(self) -> dict[str, Any]:
        """As Outcome says."""
        return {"said": "failed", "error_kind": "Fail", "error": self.reason, "is_permanent": True}


class Hold(Outcome):
    """A person must decide: the task waits, with its question, until somebody approves of it. No attempt is spent."""

    __slots__ = ("question",)

    def __init__(self, question: str) -> None:
        if not isinstance(question, str) or not question:
            raise ValueError("Hold(question) needs the question that a person is to answer")
        self.question = question

    def facts(self) -> dict[str, Any]:
        """As Outcome says."""
        return {"said": "held", "error": bounded(self.question)}


def _words(reason: object) -> str:
    """A reason in words, whatever was given for it: an exception above all."""
    return reason if isinstance(reason, str) else text_of(reason)


def _seconds(given: object, what: str) -> float:
    seconds = given.total_seconds() if isinstance(given, timedelta) else given
    if (
        isinstance(seconds, bool)
        or not isinstance(seconds, int | float)
        or math.isnan(seconds)
        or not 0 <= seconds <= LONGEST_SECONDS
    ):
        raise ValueError(f"{what} must be a timedelta or a number of seconds from 0 to {LONGEST_SECONDS:,}")
    return float(seconds)
