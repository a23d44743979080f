"""Errors made fit to be stored."""

import random
import string
import time

import pytest

from stoker.worker.redact import CUT, LIMIT, LOOKED_AT, UNSEARCHED, WITHHELD, bounded, last_line, redact, stored

CANARY = "c4n4ry-S3cret-value"


@pytest.mark.parametrize(
    "text",
    [
        f"cannot reach postgresql://app:{CANARY}@db/shop",
        f"cannot reach postgresql://app:p@{CANARY}@db/shop",
        f"cannot reach postgresql://app:p/{CANARY}@db/shop",
        f"password={CANARY} is wrong",
        f'{{"api_key": "{CANARY}"}}',
        f"DB_PASSWORD: {CANARY}",
        f"Authorization: Bearer {CANARY}",
        f"secret = '{CANARY}'",
        f"PGPASSWORD={CANARY}",
        f'{{"accessToken":"{CANARY}"}}',
        f'"{{\\"password\\": \\"{CANARY}\\"}}"',
        f'passphrase = "correct horse {CANARY} staple"',
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


def test_a_secret_that_a_bound_cuts_is_never_half_seen() -> None:
    """P9: first all of it is masked, then it is cut; where no more is looked at, what may be half of one is dropped."""
    secrets = [f"postgresql://bob:{CANARY}@db/x", f"password={CANARY}", "Ada Canary-Example", "canary " * 40]
    secrets.append("postgresql://bob:" + "c4n4." * 15 + "@db/x")
    for secret in secrets:
        for bound in (LIMIT, LOOKED_AT):
            for before in range(bound - len(secret) - 25, bound + 1, len(secret) // 9):
                for filling in ("y " * (before // 2), "Bulky payload!" * (before // 14)):
                    text = filling + " " * (before - len(filling)) + secret + " the rest"
                    kept = stored(text, "redacted", [secret * (" " in secret), "Bulky payload!" * 2000])
                    assert "anar" not in kept, (secret, bound, before)
                    assert "c4n4" not in kept, (secret, bound, before)
                    assert len(kept) <= LIMIT
    assert redact("y " * LOOKED_AT).endswith(CUT)


def test_a_part_of_a_long_string_of_the_payload_is_masked_as_the_whole_is() -> None:
    """P9: libraries quote the first words of what they cannot read, the line that is wrong, or the middle of it."""
    story = (
        " ".join(f"word{n} of a letter that nobody else may read;" for n in range(40))
        + "\n"
        + "it's the end\\of it all, I fear"
    )
    for quoted in (story, story[:60], story[700:725], repr(story)[-40:], story[-40:], story[:90] + "..." + story[-90:]):
        text = redact(f"cannot parse <{quoted}> in line 1", {"letter": story, "n": "7"})
        assert text.startswith("cannot parse <[payload.letter]")
        assert text.endswith("> in line 1")
        assert "word" not in text
        assert "fear" not in text
    assert redact("see page 1 of a letter", {"letter": story}) == "see page 1 of a letter"


def test_a_short_string_is_masked_as_a_word_of_its_own_only() -> None:
    """The text stays readable: two or three characters inside a word, a path or a number say nothing of the payload."""
    payload = {"pin": "737", "country": "de", "letter": "a", "none": ""}
    text = redact("code 737 of de refused: 17370, 1.737, de.csv, /x/de, a model, decoded de", payload)
    assert text == (
        "code [payload.pin] of [payload.country] refused: 17370, 1.737, de.csv, /x/de, a model, decoded [payload.country]"
    )
    assert redact("xabcdx", ["abcd"]) == "x[payload[0]]x"


def test_however_many_strings_a_payload_has_each_is_masked() -> None:
    """P9: the last of thousands is as secret as the first."""
    payload = {"to": [f"user-{n}@example.org" for n in range(20_000)]}
    assert redact("refused: user-19999@example.org", payload) == "refused: [payload.to[19999]]"
    assert redact("x", ["y" * 3_000_000]) == UNSEARCHED
    assert redact("x", [[1] * 3_000_000]) == UNSEARCHED


LETTERS = "".join(random.Random(7).choices(string.ascii_letters, k=1_000_000))


@pytest.mark.parametrize(
    ("text", "payload"),
    [
        *(
            (unit * 16_000, None)
            for unit in ("a_", "a-", "1a", "1_", "://a:", "password", "password='", "basic ", "sk-", "token  ")
        ),
        (LETTERS, LETTERS),
        (LETTERS, [LETTERS[at : at + 2 + at % 39] for at in range(0, 900_000, 21)]),
        ("a" * 20_000, ["a" * n for n in range(1400)]),
    ],
)
def test_the_work_is_bounded_whatever_is_said_and_given(text: str, payload: object) -> None:
    """A worker that fails a task has others to do: no text of a handler costs it seconds."""
    started = time.process_time()
    redact(text, payload)
    assert time.process_time() - started < 1.5


def test_of_a_program_s_words_the_last_line_is_told() -> None:
    """It is masked before it is taken, so that a secret of several lines is known."""
    key = "first line of a key\nsecond Canary line"
    assert last_line(f"no key {key}\n\n", "redacted", {"key": key}) == "no key [payload.key]"
    assert last_line("a\nb\n", "full") == "b"
    assert last_line("a", "withheld") == WITHHELD
    assert last_line(" \n", "withheld") == last_line("\n", "redacted") == ""
