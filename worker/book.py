"""The claims a keeper holds, and what has become of each task: pure bookkeeping, no waiting and no speaking to anybody."""

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from stoker.sql.layout import PARTITION_IDS

DONE, FAILED, RETRY, UNKNOWN = "done", "failed", "retry", "unknown"


@dataclass(slots=True)
class Entry:
    """One claimed task. ``number`` is its place in the runner's feed; 0: not fed.

    What the runner ``said`` becomes the ``verdict`` when it counts the task as finished. ``seconds`` is a time worth
    keeping; ``mean`` that of the tasks it was finished with; ``delay`` that until a retry. ``is_permanent`` and
    ``is_retriable`` are what the handler itself said of a failure.
    """

    id: int
    spent: int
    max_attempts: int
    payload: str
    number: int = 0
    said: str | None = None
    verdict: str | None = None
    seconds: float | None = None
    mean: float = 0.0
    delay: float | None = None
    result: str | None = None
    label: str | None = None
    error_kind: str | None = None
    error: str | None = None
    is_permanent: bool = False
    is_retriable: bool = False
    output: str | None = None

    @property
    def attempt(self) -> int:
        """The number of the attempt that this claim allows, from 1."""
        return self.spent + 1

    @property
    def is_plain(self) -> bool:
        """Done, with nothing worth a row of its own."""
        return self.verdict == DONE and self.result is None and self.seconds is None and self.label is None


@dataclass(slots=True)
class Claim:
    """One batch under one token. ``entries`` are those not settled yet, by id; ``step`` counts partial settlements."""

    token: str
    entries: list[Entry]
    started: bool
    step: int = 0
    fed_at: float = 0.0
    touched_at: float = 0.0

    @property
    def is_over(self) -> bool:
        """Whether every task has its verdict."""
        return all(entry.verdict for entry in self.entries)

    @property
    def is_fed(self) -> bool:
        """Whether its tasks were handed to the runner."""
        return bool(self.fed_at)


@dataclass(slots=True)
class Book:
    """Claims in the order they were made, and the entries that are with the runner, in the order they were fed."""

    claims: deque[Claim] = field(default_factory=deque)
    fed: deque[Entry] = field(default_factory=deque)
    next_number: int = 1

    @property
    def held(self) -> int:
        """Tasks claimed and not settled."""
        return sum(len(claim.entries) for claim in self.claims)

    def feed(self, claim: Claim, now: float) -> tuple[int, list[Entry]]:
        """Number the tasks of ``claim`` that have no verdict; the first number, and the entries to hand over."""
        first = self.next_number
        entries = [entry for entry in claim.entries if entry.verdict is None and not entry.number]
        for entry in entries:
            entry.number = self.next_number
            self.next_number += 1
        self.fed.extend(entries)
        claim.fed_at = claim.touched_at = now
        return first, entries

    def find(self, number: int) -> Entry | None:
        """The fed entry with this number."""
        if not self.fed or not 0 <= number - self.fed[0].number < len(self.fed):
            return None
        return self.fed[number - self.fed[0].number]

    def finish(self, finished: int) -> list[Entry]:
        """Every fed task up to number ``finished`` is over: those without a verdict are plainly done."""
        passed: list[Entry] = []
        while self.fed and self.fed[0].number <= finished:
            entry = self.fed.popleft()
            entry.verdict = entry.said or DONE
            passed.append(entry)
        return passed

    def take_back(self) -> None:
        """The runner is gone: what it was fed and did not end is unfed again, and numbering starts anew."""
        for entry in self.fed:
            entry.number = 0
        self.fed.clear()
        self.next_number = 1
        for claim in self.claims:
            claim.fed_at = 0.0


def runs(entries: Iterable[Entry]) -> Iterator[tuple[int, int, int]]:
    """``(lo, hi, spent)`` for each run of neighbouring ids of one partition with as many attempts spent.

    ``entries`` ascend by id.
    """
    lo = hi = spent = -1
    for entry in entries:
        if entry.id == hi + 1 and entry.spent == spent and entry.id % PARTITION_IDS:
            hi = entry.id
            continue
        if lo >= 0:
            yield lo, hi, spent
        lo = hi = entry.id
        spent = entry.spent
    if lo >= 0:
        yield lo, hi, spent


def columns(rows: Iterable[tuple[Any, ...]], width: int) -> list[list[Any]]:
    """Rows turned into ``width`` columns, for unnest."""
    turned = [list(column) for column in zip(*rows, strict=True)]
    return turned or [[] for _ in range(width)]
