"""Errors made fit to be stored: bounded, and without what looks secret. The one place where that is done.

Everything is looked for in the first 16,000 characters of a text, as they are, and only then is it bounded: so a secret that
a bound cuts in two is never half seen. The work is bounded too, whatever a handler says and whatever its payload holds.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

LIMIT = 4000
LOOKED_AT = 4 * LIMIT
WITHHELD = "(error text withheld by this mode's configuration)"
UNSEARCHED = "(error text withheld: the payload is too large to be looked for in it)"
CUT = " [... cut ...]"
_MASK = "[redacted]"
_SHORTEST = 2  # one character says nothing
_ANYWHERE = 4  # what is shorter is masked as a word of its own only
_LONGEST_WHOLE = 40  # of what is longer, every part is masked
_PART = 20
_PAYLOAD_SIZE = 2_000_000  # characters of strings, and values
_SECRETS = (
    re.compile(r"(?<=://)([^/\s:@]{0,200}:\S{0,300})(?=@)"),
    re.compile(r"(?i)\b((?:bearer|basic)\s+[\w.~+/=-]{8,})"),
    re.compile(
        r"(?i)(?:pass(?:word|wd|phrase)|pwd|secret|token|(?:api|access|private)[_-]?key|credential|(?<![a-z])auth)"
        r"\\*[\"']?\s*[=:]\s*\\*(?:\"([^\"\n]+)|'([^'\n]+)|([^\s\"',;&]+))"
    ),
    re.compile(r"\b((?:[sprk]k[_-]|gh[opsu]_|github_pat_|glpat-|xox[a-z]-|AKIA|eyJ)[\w-]{12,})"),
)
_LONG_WORD = re.compile(r"(?<![A-Za-z0-9+/_-])[+/_-]*([A-Za-z0-9][A-Za-z0-9+/_-]{31,}={0,2})")
_UNFINISHED = re.compile(r"(?<=://)([^/\s@]+)\Z")
_WORD = re.compile(r"[\w./-]*\w")
Found = Iterator[tuple[int, int, str]]


def redact(text: str, payload: Any = None, environment: Mapping[str, str] | None = None) -> str:
    """``text`` without credentials, long random words, the payload's own strings and the mode's environment.

    Each of the last two is named by its place. What is masked never hides what else is to be masked. A text of more than
    16,000 characters is cut there, with a mark.
    """
    looked, is_cut = text[:LOOKED_AT], len(text) > LOOKED_AT
    known = [(f"[env.{name}]", value) for name, value in (environment or {}).items()]
    try:
        known += _strings(payload)
    except OverflowError:
        return UNSEARCHED
    found = [*_secrets(looked), *_known(looked, known)]
    if is_cut:  # what begins before the last few characters is whole, or long enough to be known for what it is
        found += [(*match.span(1), _MASK) for match in _UNFINISHED.finditer(looked)]
        found.append((LOOKED_AT - _LONGEST_WHOLE, LOOKED_AT, CUT))
    masked = _masked(looked, found)
    return masked if not is_cut or masked.endswith(CUT) else masked + CUT


def bounded(text: str, limit: int = LIMIT) -> str:
    """``text`` without NUL and lone surrogates, at most ``limit`` characters, with a mark where it was cut."""
    text = text.replace("\0", "\ufffd").encode("utf-8", "replace").decode()
    return text if len(text) <= limit else text[: limit - 20] + CUT


def stored(text: str, policy: str, payload: Any = None, environment: Mapping[str, str] | None = None) -> str:
    """What is stored of an error's ``text`` under the ``policy`` of its mode: full, redacted or withheld."""
    if policy == "withheld":
        return WITHHELD
    return bounded(text if policy == "full" else redact(text, payload, environment))


def last_line(text: str, policy: str, payload: Any = None, environment: Mapping[str, str] | None = None) -> str:
    """What is stored of the last line of a program's standard error, of which ``text`` is the end; empty if there is none."""
    if policy == "withheld":
        return WITHHELD if text.strip() else ""
    lines = (text if policy == "full" else redact(text, payload, environment)).strip().splitlines()
    return bounded(lines[-1]) if lines else ""


def _secrets(text: str) -> Found:
    for pattern in _SECRETS:
        for match in pattern.finditer(text):
            yield *match.span(match.lastindex or 0), _MASK
    for match in _LONG_WORD.finditer(text):
        word = match[1]
        if any(map(str.isdigit, word)) and any(map(str.isalpha, word)):
            yield *match.span(1), _MASK


def _known(text: str, known: list[tuple[str, str]]) -> Found:
    """Where a known string stands in ``text``, as it is or as repr and JSON write it: whole, or in part if it is long."""
    whole = dict[str, str]()
    parts = dict.fromkeys((text[at : at + _PART] for at in range(len(text) - _PART + 1)), "")
    for place, value in known:
        for form in _forms(value):
            if len(form) <= _LONGEST_WHOLE:
                whole.setdefault(form, place)
                continue
            for part in parts.keys() & (form[at : at + _PART] for at in range(len(form) - _PART + 1)):
                parts[part] = parts[part] or place
    yield from ((at, at + _PART, parts[part]) for at in range(len(text) - _PART + 1) if parts[part := text[at : at + _PART]])
    for match in _WORD.finditer(text):
        if _SHORTEST <= len(match[0]) < _ANYWHERE and match[0] in whole:
            yield *match.span(), whole[match[0]]
    for length in sorted({len(form) for form in whole if len(form) >= _ANYWHERE}):
        for at in range(len(text) - length + 1):
            if found := whole.get(text[at : at + length]):
                yield at, at + length, found


def _forms(value: str) -> set[str]:
    """``value`` as it is, and as repr and JSON write it."""
    if value.isascii() and value.isprintable() and not {"\\", "'", '"'} & set(value):
        return {value}
    return {value, repr(value)[1:-1], json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]}


def _masked(text: str, found: list[tuple[int, int, str]]) -> str:
    """``text`` with each place masked; of those that overlap, the first and longest gives its name to all."""
    parts, at = list[str](), 0
    for start, end, mask in sorted(found, key=lambda one: (one[0], -one[1])):
        if start >= at:
            parts += [text[at:start], mask]
        at = max(at, end)
    return "".join([*parts, text[at:]])


def key_shown(key: str, policy: str) -> str:
    """What is told of a key that only a payload has, under the ``policy`` of its mode."""
    return key if policy == "full" else "*" if policy == "withheld" else redact(key)


def _strings(payload: Any) -> Iterator[tuple[str, str]]:
    """Every string in a JSON value with its place; raises OverflowError when there is too much to look for."""
    stack, left = [(payload, "payload")], _PAYLOAD_SIZE
    while stack:
        item, where = stack.pop()
        left -= 1
        if isinstance(item, str):
            left -= len(item)
            yield f"[{where}]", item
        elif isinstance(item, dict):
            stack.extend((v, f"{where}.{k}" if str(k).isidentifier() else f"{where}.*") for k, v in item.items())
        elif isinstance(item, list):
            stack.extend((v, f"{where}[{i}]") for i, v in enumerate(item))
        if left < 0 or len(stack) > _PAYLOAD_SIZE:
            raise OverflowError
