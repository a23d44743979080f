"""JSON cut into its parts by its marks alone, without reading it: for what Python would not read, and for who wants the text.

PostgreSQL stores numbers and depths that Python's json refuses; one such payload must not take its batch with it.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

_MARK = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{},]', re.DOTALL)


class UnreadableError(ValueError):
    """A payload that is JSON to PostgreSQL, and not to Python."""


def pieces(text: str) -> Iterator[str]:
    """The parts of valid JSON ``text`` between the commas that are within no bracket, each without the space around it."""
    depth = start = 0
    for match in _MARK.finditer(text):
        mark = match.group()
        if mark in "[{":
            depth += 1
        elif mark in "]}":
            depth -= 1
        elif mark == "," and not depth:
            yield text[start : match.start()].strip()
            start = match.end()
    yield text[start:].strip()


def salvage(frame: bytes) -> tuple[int, list[Any], list[int], list[Any]]:
    """The parts of a frame that cannot be read as a whole; a payload that cannot be read is an UnreadableError."""
    number, spans, passed, _ = pieces(_within(frame.decode()))
    return json.loads(number), json.loads(spans), json.loads(passed), [read_one(text) for text in cut(frame)]


def cut(frame: bytes) -> list[str]:
    """The payloads of a frame, each its own text."""
    *_, payloads = pieces(_within(frame.decode()))
    return list(pieces(_within(payloads)))


def _within(text: str) -> str:
    """What stands between a text's first and last bracket."""
    return text.strip()[1:-1]


def read_one(text: str) -> Any:
    """The payload behind ``text``, or an UnreadableError that says why there is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        reason = "it is nested too deep" if isinstance(error, RecursionError) else str(error)
        return UnreadableError(f"the payload cannot be read: {reason}")
