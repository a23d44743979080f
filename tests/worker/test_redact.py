"""Errors made fit to be stored."""

import pytest

from stoker.worker.redact import LIMIT, WITHHELD, bounded, redact, stored

CANARY = "c4n4ry-S3cret-value"


@pytest.mark.parametrize(
    "text",
    [
        f"cannot reach postgresql://app:{CANARY}@db/shop",
        f"password={CANARY} is wrong",
        f'{{"api_key": "{CANARY}"}}',
        f"DB_PASSWORD: {CANARY}",
        f"Authorization: Bearer {CANARY}",
        f"secret = '{CANARY}'",
        "token " + "a1b2" * 12,
        "key sk-" + "x" * 30,
    ],
)
def test_what_looks_secret_is_masked(text: str) -> None:
    """P9: credentials in URLs, key=value pairs, bearer tokens, and long random words."""
    assert CANARY not in redact(text)
    assert "[redacted]" in redact(text)


def test_the_payloads_own_strings_are_named_by_their_place() -> None:
    """P9: an error that quotes its payload says where in it the value stands, not what it is."""
    payload = {"customer": {"name": "Ada Example"}, "mails": ["ada@example.org"], "odd key": "hidden text"}
    text = redact("no such user Ada Example <ada@example.org> (hidden text)", payload)
    assert text == "no such user [payload.customer.name] <[payload.mails[0]]> ([payload.*])"


def test_an_ordinary_message_is_left_as_it_is() -> None:
    """What is masked must not be every message."""
    text = "invalid syntax (broken.py, line 3), see https://docs.example/errors?page=2 and /srv/shop/jobs.py:12"
    assert redact(text, {"n": 3, "short": "py"}) == text


def test_text_is_bounded_and_storable() -> None:
    """No NUL, no lone surrogate, at most 4,000 characters, and a mark where it was cut."""
    assert bounded("a\0b\ud800c") == "a\ufffdb?c"
    assert len(bounded("x" * 10**6)) <= LIMIT
    assert bounded("x" * 10**6).endswith("[... cut ...]")


def test_a_policy_decides_what_is_stored() -> None:
    """Full: all of it; redacted: masked; withheld: one fixed sentence."""
    text = f"password={CANARY}"
    assert stored(text, "full") == text
    assert stored(text, "redacted") == "password=[redacted]"
    assert stored(text, "withheld") == WITHHELD
