"""Errors made fit to be stored: bounded, and without what looks secret. The one place where that is done."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

LIMIT = 4000
WITHHELD = "(error text withheld by this mode's configuration)"
_MASK = "[redacted]"
_SECRETS = (
    re.compile(r"(?<=://)[^/\s:@]*:[^/\s@]*(?=@)"),
    re.compile(r"(?i)\b(?:bearer|basic)\s+[\w.~+/=-]{8,}"),
    re.compile(
        r"(?i)(?<![a-z])((?:[a-z0-9]+[_-])*(?:password|passwd|pwd|secret|token|api[_-]?key|access[_-]?key|credential|auth)"
        r"[\"']?\s*[=:]\s*[\"']?)([^\s\"',;&]+)"
    ),
    re.compile(r"\b(?:sk|pk|ghp|gho|xox[abp]|AKIA|eyJ)[\w-]{12,}"),
    re.compile(r"\b(?=[A-Za-z0-9+/_-]*\d)(?=[A-Za-z0-9+/_-]*[A-Za-z])[A-Za-z0-9+/_-]{32,}={0,2}"),
)


def redact(text: str, payload: Any = None, environment: Mapping[str, str] | None = None) -> str:
    """``text`` without credentials, long random words, the payload's own strings and the mode's environment.

    Each of the last two is named by its place. Everything is looked for in the text as it is, so that masking one thing
    never hides another.
    """
    found = [(*match.span((match.re.groups and 2) or 0), _MASK) for pattern in _SECRETS for match in pattern.finditer(text)]
    known = _strings(payload, "payload") + [(f"env.{name}", value) for name, value in (environment or {}).items()]
    for place, value in known:
        if len(value) >= 4:
            found += [(start, end, f"[{place}]") for start, end in _occurrences(text, value)]
    return _masked(text, found)


def _occurrences(text: str, value: str) -> Iterator[tuple[int, int]]:
    """Where ``value`` stands in ``text``, as it is or as repr and JSON write it."""
    for form in {value, repr(value)[1:-1], json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]}:
        start = text.find(form)
        while start >= 0:
            yield start, start + len(form)
            start = text.find(form, start + len(form))


def _masked(text: str, found: list[tuple[int, int, str]]) -> str:
    """``text`` with each place masked; of those that overlap, the first and longest gives its name to all."""
    parts, at = list[str](), 0
    for start, end, mask in sorted(found, key=lambda one: (one[0], -one[1])):
        if start >= at:
            parts += [text[at:start], mask]
        at = max(at, end)
    return "".join([*parts, text[at:]])


def bounded(text: str, limit: int = LIMIT) -> str:
    """``text`` without NUL and lone surrogates, at most ``limit`` characters, with a mark where it was cut."""
    text = text.replace("\0", "\ufffd").encode("utf-8", "replace").decode()
    return text if len(text) <= limit else text[: limit - 20] + " [... cut ...]"


def stored(text: str, policy: str, payload: Any = None, environment: Mapping[str, str] | None = None) -> str:
    """What is stored of an error's ``text`` under the ``policy`` of its mode: full, redacted or withheld."""
    if policy == "withheld":
        return WITHHELD
    return bounded(text if policy == "full" else redact(text[: 4 * LIMIT], payload, environment))


def key_shown(key: str, policy: str) -> str:
    """What is told of a key that only a payload has, under the ``policy`` of its mode."""
    return key if policy == "full" else "*" if policy == "withheld" else redact(key)


def _strings(value: Any, place: str) -> list[tuple[str, str]]:
    """Every string in a JSON value with its place, longest first, so that a part never hides its whole."""
    found: list[tuple[str, str]] = []
    stack = [(value, place)]
    while stack and len(found) < 1000:
        item, where = stack.pop()
        if isinstance(item, str):
            found.append((where, item))
        elif isinstance(item, dict):
            stack.extend((v, f"{where}.{k}" if str(k).isidentifier() else f"{where}.*") for k, v in item.items())
        elif isinstance(item, list):
            stack.extend((v, f"{where}[{i}]") for i, v in enumerate(item))
    return sorted(found, key=lambda pair: -len(pair[1]))
