"""A task that is to be enqueued, and what the database would refuse of it or a worker could not run."""

import difflib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

DEFAULT_SPAN_LENGTH = 1000
DEFAULT_PAYLOAD_LIMIT = 1024 * 1024
_INTEGER = range(-(2**31), 2**31)
_UNSTORABLE = re.compile("[\\0\ud800-\udfff]")
# A day more in another time zone would be of the year 0 or 10000, which Python cannot read back. The database asks the same.
_FIRST, _END = datetime(2, 1, 1, tzinfo=UTC), datetime(9999, 1, 1, tzinfo=UTC)
_LONGEST_WINDOW_SECONDS = 10 * 366 * 86_400
_MOST_TAGS, _LONGEST_TAG, _LONGEST_KEY = 20, 100, 200


class EnqueueError(ValueError):
    """A task that cannot be accepted. Nothing of its call was enqueued; ``line`` is its number, from 1, if it had one."""

    def __init__(self, reason: str, line: int | None = None) -> None:
        self.line, self.reason = line, reason
        super().__init__(f"line {line}: {reason}" if line else reason)


@dataclass(slots=True)
class NewTask:
    """A task to be enqueued. ``payload`` is any JSON value; a lower priority is more urgent; times are aware.

    It is not started before ``available_at``, nor after ``expires_at``, nor, with ``needs_approval``, before somebody
    approves of it. Of one mode and ``key`` there is one task while it is unfinished and for ``key_seconds`` after; with
    ``retry_terminal`` one that failed or was cancelled is opened again. Those of one mode and ``lane_key`` run one at a
    time, in order. ``line`` is where it was read, for messages.

    Not frozen: to make one takes a sixth of the time, and a hundred thousand are made at once.
    """

    mode: str
    payload: Any = None
    priority: int = 0
    version: int = 1
    max_attempts: int | None = None
    available_at: datetime | None = None
    expires_at: datetime | None = None
    tags: tuple[str, ...] = ()
    key: str | None = None
    key_seconds: float = 0.0
    retry_terminal: bool = False
    lane_key: str | None = None
    needs_approval: bool = False
    line: int | None = None


@dataclass(frozen=True, slots=True)
class Door:
    """What is let in: the schema, the longest payload in bytes, the known modes (None: any), and how long a span may be.

    ``models`` are what payloads must fit, by mode: pydantic models, or whatever else pydantic can check. What is stored
    is the payload as it was given, not as the model would write it. ``hiding``: what is told of a key of a payload that is
    not its model's, by mode; where nothing is said of a mode, nothing is told.
    """

    schema: str = "stoker"
    payload_limit: int = DEFAULT_PAYLOAD_LIMIT
    modes: frozenset[str] | None = None
    span_length: int = DEFAULT_SPAN_LENGTH
    models: Mapping[str, Any] = field(default_factory=dict)
    hiding: Mapping[str, Callable[[str], str]] = field(default_factory=dict)


def check_columns(task: NewTask, door: Door) -> None:
    """Everything but the payload."""
    if not isinstance(task.mode, str) or not 0 < len(task.mode) <= 63 or _UNSTORABLE.search(task.mode):
        raise EnqueueError("mode must be a name of 1 to 63 characters of Unicode text without NUL")
    if door.modes is not None and task.mode not in door.modes:
        near = difflib.get_close_matches(task.mode, door.modes, 1)
        meant = f"did you mean {near[0]}?" if near else f"configured: {', '.join(sorted(door.modes)) or 'none'}"
        raise EnqueueError(f"unknown mode {task.mode!r}; {meant}")
    _check_integer("priority", task.priority, _INTEGER)
    _check_integer("version", task.version, range(1, 2**31))
    if task.max_attempts is not None:
        _check_integer("max_attempts", task.max_attempts, range(1, 2**31))
    if task.available_at is not None:
        check_time(task.available_at, "available_at")
    if task.expires_at is not None:
        check_time(task.expires_at, "expires_at")
    if task.tags != ():
        _check_tags(task.tags)
    if task.lane_key is not None:
        _check_name("lane_key", task.lane_key, _LONGEST_KEY)
    _check_flag("needs_approval", task.needs_approval)


def check_key(task: NewTask) -> None:
    """The key and what belongs to it."""
    if task.key is not None:
        _check_name("key", task.key, _LONGEST_KEY)
    elif task.retry_terminal:
        raise EnqueueError("retry_terminal needs a key: it opens the task again that has it")
    _check_flag("retry_terminal", task.retry_terminal)
    seconds = task.key_seconds
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds <= _LONGEST_WINDOW_SECONDS:
        raise EnqueueError(f"key_seconds must be a number of seconds from 0 to {_LONGEST_WINDOW_SECONDS:,}")


def _check_tags(tags: object) -> None:
    if not isinstance(tags, tuple) or len(tags) > _MOST_TAGS:
        raise EnqueueError(f"tags must be at most {_MOST_TAGS} words")
    for tag in tags:
        _check_name("a tag", tag, _LONGEST_TAG)


def _check_name(what: str, name: object, longest: int) -> None:
    if not isinstance(name, str) or not 0 < len(name) <= longest or _UNSTORABLE.search(name):
        raise EnqueueError(f"{what} must be 1 to {longest} characters of Unicode text without NUL")


def _check_flag(name: str, value: object) -> None:
    if value is not True and value is not False:
        raise EnqueueError(f"{name} must be true or false")


def _check_integer(name: str, value: object, allowed: range) -> None:
    if type(value) is not int or value not in allowed:
        raise EnqueueError(f"{name} must be a whole number from {allowed.start} to {allowed.stop - 1}")


def check_time(time: object, name: str) -> None:
    """A time that both the database and Python can keep."""
    if not isinstance(time, datetime):
        raise EnqueueError(f"{name} is not a datetime")
    if time.utcoffset() is None:
        raise EnqueueError(f"{name} has no offset; write for example 2026-12-01T07:00:00+01:00 or ...Z")
    if not _FIRST <= time < _END:
        raise EnqueueError(f"{name} is beyond the years 2 to {_END.year - 1}, in UTC")
