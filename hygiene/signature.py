"""How a POST is signed, and how its receiver makes sure of it.

The header ``Stoker-Signature`` holds ``v1=`` and the HMAC-SHA256, in hexadecimal, of the header ``Stoker-Timestamp`` (seconds
since 1970), a full stop and the body; while a secret is replaced by a new one, it holds one for each, with ", " between.
"""

import hashlib
import hmac
from collections.abc import Iterable, Mapping

TIMESTAMP, SIGNATURE, DELIVERY = "Stoker-Timestamp", "Stoker-Signature", "Stoker-Delivery"
TOLERANCE_SECONDS = 300.0


class SignatureError(Exception):
    """What came is not to be believed; the text says why, and holds nothing of it."""


def sign(secrets: Iterable[str], body: bytes, seconds: float) -> dict[str, str]:
    """The headers that sign ``body`` with each of ``secrets``, at ``seconds`` since 1970."""
    stamp = str(int(seconds))
    return {TIMESTAMP: stamp, SIGNATURE: ", ".join(f"v1={_mac(secret, stamp, body)}" for secret in secrets)}


def verify(
    headers: Mapping[str, str], body: bytes, secrets: Iterable[str], now: float, tolerance: float = TOLERANCE_SECONDS
) -> None:
    """Make sure that ``body``, the very bytes, was signed with one of ``secrets`` within ``tolerance`` seconds of ``now``.

    Raises SignatureError. Every comparison takes the same time, whatever is wrong. A repetition has the same ``delivery_id``
    in its body: who has done that one already answers 200 and does nothing.
    """
    named = {name.lower(): value for name, value in headers.items()}
    stamp, signatures = named.get(TIMESTAMP.lower(), ""), named.get(SIGNATURE.lower(), "")
    if not (stamp.isascii() and stamp.isdigit() and len(stamp) <= 12):
        raise SignatureError("there is no timestamp")
    given = [one.strip().removeprefix("v1=") for one in signatures.split(",")][:8]
    known = [_mac(secret, stamp, body) for secret in secrets]
    matches = [hmac.compare_digest(mine.encode(), theirs.encode()) for mine in known for theirs in given]
    if not any(matches):
        raise SignatureError("the signature is not right")
    if abs(now - int(stamp)) > tolerance:
        raise SignatureError("the timestamp is too old, or of the future")


def _mac(secret: str, stamp: str, body: bytes) -> str:
    return hmac.new(secret.encode(), stamp.encode() + b"." + body, hashlib.sha256).hexdigest()
