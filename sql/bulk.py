"""What COPY is sent, and how the ids that were taken for it are dealt out and cut into spans."""

import re
from collections.abc import Iterable, Iterator
from itertools import chain, groupby

from stoker.sql.layout import PARTITION_IDS

Ids = tuple[int, int]
"""Neighbouring ids: the first and the last."""

_BACKSLASH, _TWO = "\\", "\\\\"
_SPECIAL = re.compile(r"[\\\t\n\r\b\f\v]")
_ESCAPED = {"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r", "\b": "\\b", "\f": "\\f", "\v": "\\v"}


def neighbours(lo: int, hi: int, ids: Iterable[int] | None) -> list[Ids]:
    """What take_ids gave, as runs of neighbours that rise."""
    if ids is None:
        return [(lo, hi)]
    found: list[Ids] = []
    for _, island in groupby(enumerate(sorted(ids)), lambda one: one[1] - one[0]):
        members = [one for _, one in island]
        found.append((members[0], members[-1]))
    return found


def deal(taken: Iterable[Ids], counts: Iterable[int]) -> Iterator[list[Ids]]:
    """Deal the ids taken out, in their order: to each of ``counts`` as many as it says."""
    rest = iter(taken)
    lo, hi = 0, -1
    for count in counts:
        share: list[Ids] = []
        left = count
        while left:
            if lo > hi:
                lo, hi = next(rest)
            upto = min(hi, lo + left - 1)
            share.append((lo, upto))
            left -= upto - lo + 1
            lo = upto + 1
        yield share


def cut(ranges: Iterable[Ids], length: int) -> Iterator[Ids]:
    """Rising ranges as spans: neighbours joined, at most ``length`` ids long, none across a partition's border."""
    for lo, hi in _joined(ranges):
        start = lo
        while start <= hi:
            border = (start // PARTITION_IDS + 1) * PARTITION_IDS
            upto = min(hi, start + length - 1, border - 1)
            yield start, upto
            start = upto + 1


def _joined(ranges: Iterable[Ids]) -> Iterator[Ids]:
    lo, hi = 0, -1
    for first, last in ranges:
        if first != hi + 1 and lo <= hi:
            yield lo, hi
        lo, hi = (lo if first == hi + 1 and lo <= hi else first), last
    if lo <= hi:
        yield lo, hi


def columns(*values: str | int | None) -> str:
    """Columns of a row in COPY's text format, a tab on either side."""
    return "\t".join(["", *("\\N" if value is None else _escaped(str(value)) for value in values), ""])


def array(words: Iterable[str]) -> str:
    """Words as a text array of PostgreSQL's."""
    quoted = ('"' + word.replace("\\", "\\\\").replace('"', '\\"') + '"' for word in words)
    return "{" + ",".join(quoted) + "}"


def numbers(ranges: Iterable[Ids]) -> Iterator[int]:
    """The ids of ``ranges``, one by one."""
    return chain.from_iterable(range(lo, hi + 1) for lo, hi in ranges)


def rows(texts: list[str], ids: Iterator[int], heads: Iterator[str]) -> str:
    """A row for each of ``texts`` of JSON, in which only backslashes are special to COPY, with the next id and columns."""
    if _BACKSLASH in "".join(texts):
        texts = [text.replace(_BACKSLASH, _TWO) for text in texts]
    return "".join([f"{number}{head}{text}\n" for text, number, head in zip(texts, ids, heads, strict=False)])


def _escaped(text: str) -> str:
    return _SPECIAL.sub(lambda match: _ESCAPED[match.group()], text)
