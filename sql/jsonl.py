"""Tasks from JSON lines."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from stoker.sql.new_task import EnqueueError, NewTask, check_time
from stoker.sql.payload import decode
from stoker.sql.units import parse_duration

_TIMES = frozenset({"available_at", "expires_at"})
_DURATIONS = frozenset({"delay", "expires_in"})
_KEYS = frozenset(
    {"mode", "payload", "priority", "version", "max_attempts", "key", "key_for", "retry_terminal", "lane_key", "tags"}
    | {"needs_approval", *_TIMES, *_DURATIONS}
)


def read_lines(
    lines: Iterable[bytes | str],
    *,
    mode: str | None = None,
    now: datetime | None = None,
    versions: Mapping[str, int] | None = None,
) -> Iterator[NewTask]:
    """Tasks from JSON lines: an object with mode and payload a line, or, when ``mode`` is given, a bare payload a line.

    ``now`` is when delays begin; ``versions`` are those of the payloads of each mode, where a line says none.
    Empty lines are passed over. Raises EnqueueError with the number of the first broken line.
    """
    for number, line in enumerate(lines, start=1):
        try:
            text = (line.decode() if isinstance(line, bytes) else line).strip().removeprefix("\ufeff")
        except UnicodeDecodeError:
            raise EnqueueError("not UTF-8", number) from None
        if text:
            try:
                yield replace(_from_line(text, mode, now or datetime.now(UTC), versions or {}), line=number)
            except ValueError as error:
                raise EnqueueError(str(error), number) from None


def _from_line(text: str, mode: str | None, now: datetime, versions: Mapping[str, int]) -> NewTask:
    value = decode(text, "the line")
    if mode is not None:
        if isinstance(value, dict) and {"mode", "payload"} <= value.keys() <= _KEYS:
            raise EnqueueError("the line names its own mode; leave out the one given for every line")
        return NewTask(mode, value, version=versions.get(mode, 1))
    if not isinstance(value, dict) or "mode" not in value:
        example = '{"mode": "resize", "payload": {...}}'
        raise EnqueueError(f"expected an object such as {example}, or name the mode of all: stoker enqueue MODE --jsonl FILE")
    unknown = sorted(value.keys() - _KEYS)
    if unknown:
        raise EnqueueError(f"unknown key {json.dumps(unknown[0])}; known: {', '.join(sorted(_KEYS))}")
    for one, other in (("available_at", "delay"), ("expires_at", "expires_in")):
        if value.get(one) is not None and value.get(other) is not None:
            raise EnqueueError(f"give {one} or {other}, not both")
    if value.get("key_for") is not None and value.get("key") is None:
        raise EnqueueError("key_for needs key: it says how long the key is kept")
    return NewTask(
        mode=value["mode"],
        payload=value.get("payload"),
        priority=value.get("priority", 0),
        version=value.get("version", versions.get(str(value["mode"]), 1)),
        max_attempts=value.get("max_attempts"),
        available_at=_time(value, "available_at", "delay", now),
        expires_at=_time(value, "expires_at", "expires_in", now),
        tags=_tags(value.get("tags") or ()),
        key=value.get("key"),
        key_seconds=_seconds(value.get("key_for")),
        retry_terminal=value.get("retry_terminal", False),
        lane_key=value.get("lane_key"),
        needs_approval=value.get("needs_approval", False),
    )


def _time(value: dict[str, Any], name: str, within: str, now: datetime) -> datetime | None:
    if value.get(within) is not None:
        return now + timedelta(seconds=parse_duration(value[within]))
    if value.get(name) is None:
        return None
    return parse_time(value[name], name)


def _seconds(text: Any) -> float:
    return 0.0 if text is None else parse_duration(text)


def _tags(tags: Any) -> tuple[str, ...]:
    if isinstance(tags, str) or not isinstance(tags, list | tuple):
        raise EnqueueError("tags must be a list of words")
    return tuple(tags)


def parse_time(text: Any, name: str = "available_at") -> datetime:
    """An ISO 8601 time with its offset, such as 2026-12-01T07:00:00+01:00 or ...Z; raises EnqueueError."""
    try:
        time = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        raise EnqueueError(f"{name} is not an ISO 8601 time, such as 2026-12-01T07:00:00+01:00") from None
    check_time(time, name)
    return time
