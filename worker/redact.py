"""Errors made fit to be stored: bounded, and without what looks secret. The one place where that is done."""

import json
import re
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


def redact(text: str, payload: Any = None) -> str:
    """``text`` without credentials, long random words, and the payload's own strings, each named by its place."""
    for place, value in _strings(payload, "payload"):
        if len(value) >= 4:
            for form in {value, repr(value)[1:-1], json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]}:
                text = text.replace(form, f"[{place}]")
    for pattern in _SECRETS:
        text = pattern.sub(lambda m: (m.group(1) if m.re.groups else "") + _MASK, text)
    return text


def bounded(text: str, limit: int = LIMIT) -> str:
    """``text`` without NUL and lone surrogates, at most ``limit`` characters, with a mark where it was cut."""
    text = text.replace("\0", "\ufffd").encode("utf-8", "replace").decode()
    return text if len(text) <= limit else text[: limit - 20] + " [... cut ...]"


def stored(text: str, policy: str, payload: Any = None) -> str:
    """What is stored of an error's ``text`` under the ``policy`` of its mode: full, redacted or withheld."""
    if policy == "withheld":
        return WITHHELD
    return bounded(text if policy == "full" else redact(text[: 4 * LIMIT], payload))


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
