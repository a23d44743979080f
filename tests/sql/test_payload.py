"""JSON at the door: what is accepted comes back exactly, what is refused is refused with its reason."""

import json
import math
import re
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.sql.factory import claim

from stoker.sql.database import Database
from stoker.sql.enqueue import Door, NewTask, enqueue_many
from stoker.sql.payload import MAX_DEPTH, PayloadError, decode, encode, encode_many

LIMIT = 1 << 20
DEEP = 100_000

numbers = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
texts = st.text() | st.sampled_from(["\\u0000", "\\", '"', "\u2028", "\U0001f600", "[" * 300, "%s", ":name", "\x7f", "\ufeff"])
values = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(texts, inner, max_size=5),
    max_leaves=20,
)


def nested(depth: int) -> Any:
    value: Any = []
    for _ in range(depth - 1):
        value = [value]
    return value


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(values, min_size=1, max_size=20))
def test_any_accepted_payload_comes_back_exactly(
    stoker: Database, connection: psycopg.Connection[Any], worker: str, payloads: list[Any]
) -> None:
    """P1: through COPY and back through a claim; what is refused is NUL alone."""
    accepted = [payload for payload in payloads if is_accepted(payload)]
    ids = enqueue_many(connection, [NewTask("m", payload) for payload in accepted], Door())
    claimed = claim(stoker, worker, len(payloads))
    came = dict(zip(claimed.ids, claimed.payloads, strict=True))
    assert [repr(came[task]) for task in ids] == [repr(payload) for payload in accepted]


def is_accepted(payload: Any) -> bool:
    try:
        encode(payload, LIMIT)
    except PayloadError:
        assert holds_nul(payload)
        return False
    assert not holds_nul(payload)
    return True


def holds_nul(value: Any) -> bool:
    if isinstance(value, dict):
        return any("\0" in key or holds_nul(inner) for key, inner in value.items())
    if isinstance(value, list):
        return any(map(holds_nul, value))
    return isinstance(value, str) and "\0" in value


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("a\0b", "NUL"),
        ({"a\0b": 1}, "NUL"),
        ("\\\\\0", "NUL"),
        (math.nan, "NaN or an infinity"),
        ([math.inf], "NaN or an infinity"),
        (-math.inf, "NaN or an infinity"),
        (1e400, "NaN or an infinity"),
        ("\ud800", "lone surrogate"),
        ({"\udc00": 1}, "lone surrogate"),
        (object(), "not JSON"),
        ({1, 2}, "not JSON"),
        (b"bytes", "not JSON"),
        ({(1, 2): 3}, "not JSON"),
        (10**5000, "not JSON"),
        (nested(MAX_DEPTH + 1), "nested deeper than 200"),
        ("x" * LIMIT, "above the limit of 1,048,576"),
        ("\u00e9" * (LIMIT // 2), "1,048,578 bytes"),
    ],
    ids=range(17),
)
def test_what_cannot_be_stored_is_refused_with_its_reason(value: Any, reason: str) -> None:
    """R64: at the door, not by the database."""
    with pytest.raises(PayloadError, match=re.escape(reason)):
        encode(value, LIMIT)


@settings(max_examples=200, deadline=None)
@given(st.lists(values | st.sampled_from([math.nan, "\0", "\ud800", nested(MAX_DEPTH + 1), "x" * 399, "x" * 401]), max_size=5))
def test_many_payloads_are_checked_as_one_is(payloads: list[Any]) -> None:
    """R64: the quick way lets in the same, as the same text."""
    try:
        wanted = [encode(payload, 400) for payload in payloads]
    except PayloadError:
        with pytest.raises(PayloadError):
            encode_many(payloads, 400)
    else:
        assert encode_many(payloads, 400) == wanted


@pytest.mark.parametrize(
    "value", [10**5000, {"a": {1, 2}}, {(1, 2): 3}, nested(DEEP), "\u00e9" * 200, [[]] * 300, "\\\0"], ids=range(7)
)
def test_many_payloads_with_an_odd_one_are_checked_as_one_is(value: Any) -> None:
    """What hypothesis would not think of; after a refusal the encoder is as good as new."""
    circle: list[Any] = []
    circle.append(circle)
    for odd in (value, circle):
        try:
            wanted = [encode(odd, 400)]
        except PayloadError:
            with pytest.raises(PayloadError):
                encode_many([odd], 400)
        else:
            assert encode_many([odd], 400) == wanted
    assert encode_many([[circle[:0]], {"a": 1}], 400) == ["[[]]", '{"a":1}']


def test_a_payload_of_depth_100_000_is_refused_both_ways() -> None:
    """R64: no RecursionError comes out, and no crash."""
    with pytest.raises(PayloadError, match="nested deeper than 200"):
        encode(nested(DEEP), LIMIT)
    with pytest.raises(PayloadError, match="nested deeper than 200"):
        decode("[" * DEEP + "]" * DEEP)


def test_a_circular_payload_is_refused() -> None:
    """And not followed for ever."""
    circle: list[Any] = []
    circle.append(circle)
    with pytest.raises(PayloadError):
        encode(circle, LIMIT)


@pytest.mark.parametrize(
    "value", [nested(MAX_DEPTH), "[" * 1000, {"[": ["]"] * 500}, "x" * (LIMIT - 2), "\\u0000", "\\\\u0000"]
)
def test_what_only_looks_wrong_is_accepted(value: Any) -> None:
    """Brackets in a string are no depth, a backslash before u0000 is no NUL, the limit itself is within the limit."""
    assert json.loads(encode(value, LIMIT)) == value


@pytest.mark.parametrize("text", ["NaN", "[Infinity]", '{"a": -Infinity}', "1e400", "[-1e999]", "{", "", "'a'", "1" * 5000])
def test_lax_json_is_refused(text: str) -> None:
    """What Python's parser lets through and no other parser would."""
    with pytest.raises(PayloadError):
        decode(text)


@pytest.mark.parametrize("value", ["secret\0", ["secret", math.nan], {"secret": "\ud800"}, {"secret": object()}, "secret" * 9])
def test_a_refusal_never_quotes_the_value(value: Any) -> None:
    """P9: payloads do not get into messages."""
    with pytest.raises(PayloadError) as refused:
        encode(value, 50)
    assert "secret" not in str(refused.value)
