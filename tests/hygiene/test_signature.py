"""T13: what was changed, is old, or was signed by somebody else is refused; two keys roll without a gap."""

import hmac
import json

import pytest

from stoker.hygiene import signature
from stoker.hygiene.signature import SIGNATURE, TIMESTAMP, SignatureError, sign, verify

BODY = json.dumps({"delivery_id": "7", "text": "done"}).encode()
NOW = 1_800_000_000.0


def test_what_was_signed_is_believed_for_five_minutes() -> None:
    headers = sign(["new"], BODY, NOW)
    for now in (NOW - 299, NOW, NOW + 299):
        verify(headers, BODY, ["new"], now)
    for now in (NOW - 302, NOW + 302):
        with pytest.raises(SignatureError, match="too old"):
            verify(headers, BODY, ["new"], now)


def test_every_changed_byte_is_noticed() -> None:
    headers = sign(["new"], BODY, NOW)
    for at in range(len(BODY)):
        changed = BODY[:at] + bytes([BODY[at] ^ 1]) + BODY[at + 1 :]
        with pytest.raises(SignatureError, match="not right"):
            verify(headers, changed, ["new"], NOW)


def test_an_old_message_with_a_new_timestamp_is_noticed() -> None:
    """The timestamp is signed with the body: a replay cannot be made young."""
    headers = sign(["new"], BODY, NOW - 3600) | {TIMESTAMP: str(int(NOW))}
    with pytest.raises(SignatureError, match="not right"):
        verify(headers, BODY, ["new"], NOW)


def test_a_key_is_rolled_without_a_gap() -> None:
    """Sender with both: who knows either believes it. Receiver with both: either sender is believed. A retired key is not."""
    both = sign(["new", "old"], BODY, NOW)
    for known in (["new"], ["old"], ["new", "old"]):
        verify(both, BODY, known, NOW)
    verify(sign(["old"], BODY, NOW), BODY, ["new", "old"], NOW)
    with pytest.raises(SignatureError):
        verify(sign(["old"], BODY, NOW), BODY, ["new"], NOW)


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {TIMESTAMP: "now"},
        {TIMESTAMP: "-1"},
        {TIMESTAMP: "1" * 400},
        {TIMESTAMP: "١٢٣"},
        {TIMESTAMP: str(int(NOW))},
        {TIMESTAMP: str(int(NOW)), SIGNATURE: ""},
        {TIMESTAMP: str(int(NOW)), SIGNATURE: "v1="},
        {TIMESTAMP: str(int(NOW)), SIGNATURE: "v1=é"},
        {TIMESTAMP: str(int(NOW)), SIGNATURE: ", ".join(["v1=00"] * 10_000)},
    ],
)
def test_what_is_no_signature_is_refused_without_an_error_of_another_kind(headers: dict[str, str]) -> None:
    with pytest.raises(SignatureError):
        verify(headers, BODY, ["new"], NOW)


def test_nobody_is_believed_who_knows_no_key() -> None:
    with pytest.raises(SignatureError):
        verify(sign([""], BODY, NOW), BODY, [], NOW)


def test_names_of_headers_are_read_in_any_case() -> None:
    headers = {name.lower(): value for name, value in sign(["new"], BODY, NOW).items()}
    verify(headers, BODY, ["new"], NOW)


def test_every_comparison_takes_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """All are compared, by the function that does not stop at the first difference."""
    seen = []

    def compare(mine: bytes, theirs: bytes) -> bool:
        seen.append(theirs)
        return hmac.compare_digest(mine, theirs)

    class Counting:
        new, compare_digest = staticmethod(hmac.new), staticmethod(compare)

    monkeypatch.setattr(signature, "hmac", Counting)
    verify(sign(["new", "old"], BODY, NOW), BODY, ["new", "older"], NOW)
    assert len(seen) == 4
