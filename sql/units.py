"""Durations and sizes as people write them: "1h30m", "250ms", "64KiB". What is read is what is written back."""

import re
from decimal import Decimal

_SECONDS = {"d": Decimal(86400), "h": Decimal(3600), "m": Decimal(60), "s": Decimal(1), "ms": Decimal("0.001")}
_DURATION = re.compile("".join(rf"(?:([0-9]+(?:\.[0-9]+)?){unit}(?![a-z]))?" for unit in _SECONDS))
_BYTES = {"TiB": 1 << 40, "GiB": 1 << 30, "MiB": 1 << 20, "KiB": 1 << 10, "B": 1}
_SIZE = re.compile(r"([0-9]{1,19})([KMGT]iB|B)")

_NO_DURATION = 'not a duration: write for example "15m", "1h30m" or "250ms"'
_NO_SIZE = 'not a size: write for example "64KiB", "1MiB" or "512B"'
LONGEST_SECONDS = 36_500 * 86_400.0
LARGEST_BYTES = (1 << 63) - 1


def parse_duration(text: str) -> float:
    """Seconds; units d h m s ms, largest first, each at most once. Raises ValueError, which never quotes ``text``."""
    match = _DURATION.fullmatch(text) if isinstance(text, str) else None
    if match is None or not match.group():
        raise ValueError(_NO_DURATION)
    parts = zip(match.groups(), _SECONDS.values(), strict=True)
    seconds = float(sum(Decimal(number) * unit for number, unit in parts if number))
    if seconds > LONGEST_SECONDS:
        raise ValueError("a duration is at most 36500d")
    return seconds


def format_duration(seconds: float) -> str:
    """The shortest text that ``parse_duration`` reads as exactly ``seconds``, which lie between 0 and 36500 days."""
    if not 0 <= seconds <= LONGEST_SECONDS:
        raise ValueError("a duration lies between 0s and 36500d")
    rest, text = Decimal(repr(float(seconds))), ""
    for name, unit in list(_SECONDS.items())[:-1]:
        count, rest = divmod(rest, unit)
        text += f"{count:f}{name}" if count else ""
    milliseconds = (rest * 1000).normalize()
    return text + (f"{milliseconds:f}ms" if milliseconds else "") or "0s"


def parse_size(text: str) -> int:
    """Bytes; units B KiB MiB GiB TiB, whole numbers. Raises ValueError, which never quotes ``text``."""
    match = _SIZE.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise ValueError(_NO_SIZE)
    size = int(match[1]) * _BYTES[match[2]]
    if size > LARGEST_BYTES:
        raise ValueError("a size is less than 8388608TiB")
    return size


def format_size(size: int) -> str:
    """The text with the largest unit that divides ``size`` bytes; ``parse_size`` reads it as exactly that."""
    if not 0 <= size <= LARGEST_BYTES:
        raise ValueError("a size lies between 0B and 8388608TiB")
    unit = next((name for name, count in _BYTES.items() if size and size % count == 0), "B")
    return f"{size // _BYTES[unit]}{unit}"
