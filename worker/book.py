"""The claims a keeper holds, and what has become of each task: pure bookkeeping, no waiting and no speaking to anybody.

A task is known by its place in its claim, from 0. Most end plainly done, in order: one number says how far that is.
Only a task of which there is more to say has an entry of its own, so that a quick batch costs the keeper next to nothing.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

from stoker.sql.layout import PARTITION_IDS
from stoker.worker.pieces import pieces

DONE, FAILED, RETRY, UNKNOWN, BACK = "done", "failed", "retry", "unknown", "back"
SNOOZE, HELD, CANCELLED = "snooze", "held", "cancelled"
"""Verdicts. ``BACK``: goes back to the queue, and no attempt is spent."""

_NOTHING = (None, None, None, None)

Span = tuple[int, int, int]
"""``(lo, hi, spent)``: neighbouring ids with as many attempts spent."""
Places = tuple[int, int]
"""``(start, stop)``: neighbouring places of a claim, ``stop`` not among them."""


@dataclass(slots=True)
class Entry:
    """One claimed task of which more is to be said than that it is plainly done.

    What the runner ``said`` becomes the ``verdict`` when it counts the task as finished. ``seconds`` is a time worth
    keeping; ``delay`` that until a retry, unless ``until`` says when. ``is_permanent`` and ``is_retriable`` are what the
    handler itself said of a failure. ``then`` are tasks to be enqueued with it. Somebody wants it ``is_called_off``.
    """

    id: int
    spent: int
    max_attempts: int
    said: str | None = None
    verdict: str | None = None
    seconds: float | None = None
    delay: float | None = None
    until: str | None = None
    result: str | None = None
    label: str | None = None
    error_kind: str | None = None
    error: str | None = None
    is_permanent: bool = False
    is_retriable: bool = False
    is_called_off: bool = False
    then: list[dict[str, Any]] | None = None
    output: str | None = None

    @property
    def attempt(self) -> int:
        """The number of the attempt that this claim allows, from 1."""
        return self.spent + 1

    @property
    def is_plain(self) -> bool:
        """Done, with nothing worth a row of its own."""
        said = (self.result, self.seconds, self.label, self.then)
        return self.verdict == DONE and said == _NOTHING


@dataclass(frozen=True, slots=True)
class Chunk:
    """Neighbouring tasks of a claim: how many, and their payloads as one JSON text, separated by commas."""

    tasks: int
    payloads: str

    def texts(self) -> Iterator[str]:
        """Each payload's own text, as it was enqueued."""
        return pieces(self.payloads)


@dataclass(slots=True)
class Claim:
    """One batch under one token. ``spans`` and ``chunks`` hold its tasks in the order they run.

    The first ``passed`` tasks are over; so are those in ``ahead``. The first ``settled`` are settled; so are those in
    ``gone``. ``entries`` are by place. ``caps`` are the tasks' own most attempts, ``cap`` that of all others. ``base``
    is the number of the first task with the runner, 0 while it was not fed. ``step`` counts partial settlements; others may
    stand behind tasks of one that is ``lined``.
    """

    token: str
    spans: list[Span]
    chunks: list[Chunk]
    started: bool
    lined: bool = False
    cap: int = 1
    caps: dict[int, int] = field(default_factory=dict)
    entries: dict[int, Entry] = field(default_factory=dict)
    step: int = 0
    base: int = 0
    touched_at: float = 0.0
    busy_seconds: float = 0.0
    passed: int = 0
    ahead: set[int] = field(default_factory=set)
    settled: int = 0
    gone: set[int] = field(default_factory=set)
    size: int = 0
    _starts: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._starts = [0, *accumulate(hi - lo + 1 for lo, hi, _ in self.spans)]
        self.size = self._starts.pop()

    @property
    def open(self) -> int:
        """How many tasks have no verdict yet."""
        return self.size - self.passed - len(self.ahead)

    @property
    def is_over(self) -> bool:
        """Whether every task has its verdict."""
        return self.open == 0

    @property
    def has_over(self) -> bool:
        """Whether a task has its verdict and is not settled."""
        return self.passed > self.settled or bool(self.ahead - self.gone)

    @property
    def payload_size(self) -> int:
        """Characters of payload."""
        return sum(len(chunk.payloads) for chunk in self.chunks)

    @property
    def is_fed(self) -> bool:
        """Whether its tasks were handed to the runner."""
        return self.base > 0

    def is_open(self, place: int) -> bool:
        """Whether the task at ``place`` has no verdict yet."""
        return place >= self.passed and place not in self.ahead

    def entry(self, place: int) -> Entry:
        """The entry of one task, made when it is first asked for."""
        found = self.entries.get(place)
        if found is None:
            at = bisect_right(self._starts, place) - 1
            lo, _, spent = self.spans[at]
            found = Entry(lo + place - self._starts[at], spent, self.caps.get(place, self.cap))
            self.entries[place] = found
        return found

    def place_of(self, task: int) -> int | None:
        """Where the task with this id is; None when it is not among these."""
        starts = zip(self._starts, self.spans, strict=True)
        return next((start + task - lo for start, (lo, hi, _) in starts if lo <= task <= hi), None)

    def end(self, place: int) -> None:
        """The task at ``place`` is over, whatever runs before it."""
        entry = self.entry(place)
        entry.verdict = entry.verdict or entry.said or DONE
        if place >= self.passed:
            self.ahead.add(place)
            self._catch_up()

    def end_before(self, stop: int) -> list[Entry]:
        """Every task before ``stop`` is over: those of which nothing was said are plainly done. The entries among them."""
        stop = min(stop, self.size)
        fresh = range(self.passed, stop)
        told = fresh if len(fresh) < len(self.entries) else list(self.entries)
        ended = [self.entries[p] for p in told if p in self.entries and p in fresh and p not in self.ahead]
        for entry in ended:
            entry.verdict = entry.said or DONE
        self.ahead.difference_update(fresh)
        self.passed = max(self.passed, stop)
        self._catch_up()
        return ended

    def take_back(self) -> None:
        """The runner is gone: what it was fed and did not end is unfed again."""
        self.base = 0
        self.entries = {place: entry for place, entry in self.entries.items() if not self.is_open(place)}

    def give_back(self, place: int) -> None:
        """The task at ``place`` will not be started by the runner: it goes back to the queue."""
        if self.is_open(place):
            self.entry(place).said = BACK
            self.end(place)

    def over(self) -> tuple[list[Places], list[Entry]]:
        """What has a verdict and is not settled: where tasks are plainly done, and the entries of all others."""
        special = {p: e for p, e in self.entries.items() if e.verdict and p not in self.gone and not e.is_plain}
        apart = sorted(place for place in {*special, *self.gone} if place < self.passed)
        plain = list(_between(self.settled, self.passed, apart))
        plain += [(place, place + 1) for place in sorted(self.ahead - self.gone) if place not in special]
        return plain, [special[place] for place in sorted(special)]

    def outputs(self) -> list[Entry]:
        """Entries that are over, not settled, and have printed something."""
        return [entry for place, entry in self.entries.items() if entry.output and entry.verdict and place not in self.gone]

    def rest(self) -> list[Places]:
        """The tasks without a verdict."""
        return list(_between(self.passed, self.size, sorted(self.ahead)))

    def settle(self) -> None:
        """What has a verdict is settled; the rest stays claimed."""
        self.step += 1
        self.gone = set(self.ahead)
        self.settled, self.busy_seconds = self.passed, 0.0
        self.entries = {place: entry for place, entry in self.entries.items() if self.is_open(place)}

    def ids(self, places: Iterable[Places]) -> list[Span]:
        """The ids at these places, as runs of neighbours within a partition that have as many attempts spent."""
        found: list[Span] = []
        for start, stop in places:
            at = bisect_right(self._starts, start) - 1
            while at < len(self.spans) and self._starts[at] < stop:
                lo, hi, spent = self.spans[at]
                first = lo + max(start - self._starts[at], 0)
                last = min(hi, lo + stop - 1 - self._starts[at])
                if found and found[-1][1] + 1 == first and found[-1][2] == spent and first % PARTITION_IDS:
                    first = found.pop()[0]
                found.append((first, last, spent))
                at += 1
        return found

    def _catch_up(self) -> None:
        while self.passed in self.ahead:
            self.ahead.remove(self.passed)
            self.passed += 1


@dataclass(slots=True)
class Book:
    """Claims in the order they were made, and those that are with the runner, in the order they were fed.

    Tasks are numbered from 1 in the order they are handed to one runner.
    """

    claims: deque[Claim] = field(default_factory=deque)
    fed: deque[Claim] = field(default_factory=deque)
    next_number: int = 1

    @property
    def open(self) -> int:
        """How many tasks are with the runner and not over."""
        return sum(claim.open for claim in self.fed)

    def feed(self, claim: Claim, now: float) -> None:
        """Number the tasks of ``claim``, which is handed to the runner."""
        claim.base = self.next_number
        self.next_number += claim.size
        claim.touched_at = now
        self.fed.append(claim)

    def find(self, number: int) -> tuple[Claim, int] | None:
        """The claim and the place of the fed task with this number."""
        for claim in self.fed:
            if claim.base <= number < claim.base + claim.size:
                return claim, number - claim.base
        return None

    def locate(self, task: int) -> tuple[Claim, int] | None:
        """The claim and the place of a task that is held, by its id."""
        found = ((claim, claim.place_of(task)) for claim in self.claims)
        return next(((claim, place) for claim, place in found if place is not None), None)

    def finish(self, finished: int) -> list[tuple[Claim, int, list[Entry]]]:
        """Every fed task up to number ``finished`` is over: by claim how many more are, and the entries among them."""
        found = []
        while self.fed and self.fed[0].base <= finished:
            claim = self.fed[0]
            before = claim.open
            ended = claim.end_before(finished - claim.base + 1)
            if before > claim.open:
                found.append((claim, before - claim.open, ended))
            if finished < claim.base + claim.size - 1:
                break
            self.fed.popleft()
        return found

    def forget(self) -> None:
        """Claims of which every task is over are with the runner no longer."""
        if any(claim.is_over for claim in self.fed):
            self.fed = deque(claim for claim in self.fed if not claim.is_over)

    def take_back(self) -> None:
        """The runner is gone; numbering starts anew."""
        self.fed.clear()
        self.next_number = 1
        for claim in self.claims:
            claim.take_back()


def _between(start: int, stop: int, apart: list[int]) -> Iterator[Places]:
    """The places from ``start`` to before ``stop`` without those ``apart``, which ascend."""
    for place in (*apart, stop):
        if start < place:
            yield start, min(place, stop)
        start = max(start, place + 1)
