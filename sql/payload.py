"""JSON at the door: what may be stored as a payload or a result, checked once, with the reason when it may not."""

import json
import math
import re
from collections.abc import Callable, Iterable, Sequence
from json import encoder as _encoder
from typing import Any

MAX_DEPTH = 200
_MAX_DIGITS = 4300
_AS_STORED: dict[str, Any] = {"ensure_ascii": False, "allow_nan": False, "separators": (",", ":")}
_SAMPLE: dict[str, Any] = {"a": [1, 2.5, None, True, {'\u00e9"\\': []}]}
_LONG_NUMBER = re.compile(r"(?:^|[\[:,])-?\d{4301,}")
_BRACKETS = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{}]')
_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")


_SHORT = 400
"""Characters of a text that has no room for MAX_DEPTH levels, each with its two brackets, nor for _MAX_DIGITS."""


class PayloadError(ValueError):
    """A value that cannot be stored as JSON; the text says why, and never quotes the value."""


def is_text(text: str) -> bool:
    """Whether PostgreSQL can store it: no NUL, no lone surrogate."""
    try:
        return b"\0" not in text.encode()
    except UnicodeEncodeError:
        return False


def encode(value: Any, limit_bytes: int, what: str = "payload") -> str:
    """``value`` as compact JSON text of at most ``limit_bytes`` bytes of UTF-8; raises PayloadError."""
    try:
        text = json.dumps(value, **_AS_STORED)
    except RecursionError:
        raise PayloadError(f"{what} is nested deeper than {MAX_DEPTH} levels") from None
    except TypeError as error:
        raise PayloadError(f"{what} is not JSON: {error}") from None
    except ValueError as error:
        reason = "it holds NaN or an infinity" if "JSON compliant" in str(error) else str(error)
        raise PayloadError(f"{what} is not JSON: {reason}") from None
    _check(text, limit_bytes, what)
    return text


def encode_many(values: Sequence[Any], limit_bytes: int) -> list[str]:
    """The text of each of ``values``, with the checks of ``encode``; raises PayloadError, which does not say for which.

    What can be told of all texts at once is looked for once: several times as quick for short values.
    """
    try:
        texts = ["".join(_chunks(value, 0)) for value in values]
        together = "".join(texts)
        together.encode()
    except (ValueError, TypeError, RecursionError):
        raise PayloadError("one of the payloads is not JSON") from None
    # A character is at most four bytes.
    if max(map(len, texts), default=0) > min(_SHORT, limit_bytes // 4) or "\\u0000" in together:
        for text in texts:
            _check(text, limit_bytes, "payload")
    return texts


def decode(text: str, what: str = "payload") -> Any:
    """The value of strict JSON ``text``; raises PayloadError on NaN, infinities, numbers beyond a double, and bad syntax."""
    try:
        return json.loads(text, parse_constant=_no_constant, parse_float=_finite)
    except RecursionError:
        raise PayloadError(f"{what} is nested deeper than {MAX_DEPTH} levels") from None
    except json.JSONDecodeError as error:
        raise PayloadError(f"{what} is not JSON: {error.msg} at line {error.lineno} column {error.colno}") from None
    except ValueError as error:
        raise PayloadError(f"{what} is not JSON: {error}") from None


def _chunk_encoder() -> Callable[[Any, int], Iterable[str]]:
    """What JSONEncoder makes anew for each value: making it once halves the time of a short one.

    It is told not to remember where it has been, so a circle ends as being too deep; ``encode`` then finds the reason.
    """
    plain = json.JSONEncoder(**_AS_STORED)
    try:
        made: Callable[[Any, int], Iterable[str]] = _encoder.c_make_encoder(  # type: ignore[attr-defined]
            None, plain.default, _encoder.encode_basestring, None, ":", ",", False, False, False
        )
        return made if "".join(made(_SAMPLE, 0)) == plain.encode(_SAMPLE) else lambda value, _: (plain.encode(value),)
    except (AttributeError, TypeError):
        return lambda value, _: (plain.encode(value),)


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is no JSON number")


def _finite(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise ValueError("a number is beyond the range of a double")
    return number


def _check(text: str, limit_bytes: int, what: str) -> None:
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise PayloadError(f"{what} holds a lone surrogate, which is no Unicode text") from None
    if size > limit_bytes:
        raise PayloadError(f"{what} is {size:,} bytes, above the limit of {limit_bytes:,}")
    if "\\u0000" in text and _NUL.search(text):
        raise PayloadError(f"{what} holds a NUL character, which PostgreSQL cannot store in text")
    if len(text) > _MAX_DIGITS and _LONG_NUMBER.search(text):
        raise PayloadError(f"{what} holds a number of more than {_MAX_DIGITS} digits, which Python does not read back")
    if text.count("[") + text.count("{") > MAX_DEPTH and _depth(text) > MAX_DEPTH:
        raise PayloadError(f"{what} is nested deeper than {MAX_DEPTH} levels")


def _depth(text: str) -> int:
    depth = deepest = 0
    for match in _BRACKETS.finditer(text):
        mark = match.group()
        if mark in "[{":
            depth += 1
            deepest = max(deepest, depth)
        elif mark in "]}":
            depth -= 1
    return deepest


_chunks = _chunk_encoder()
