"""What became of a claim's tasks, and the statement that says so to the database. Pure."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stoker.sql.database import Parameters
from stoker.worker.book import BACK, DONE, FAILED, HELD, RETRY, SNOOZE, Claim, Entry, Span

_NOT_OVER = frozenset({RETRY, SNOOZE, HELD})

MOST_LABELS, OTHERS = 100, "(others)"


@dataclass(frozen=True, slots=True)
class Settlement:
    """What became of a claim: ``plain`` ids are plainly done, ``seconds`` each; ``entries`` have their verdicts.

    ``left`` stay claimed, ``free`` go back unstarted; ``outputs`` are the entries that printed something.
    """

    claim: Claim
    plain: Sequence[Span] = ()
    seconds: float = 0.0
    entries: Sequence[Entry] = ()
    outputs: Sequence[Entry] = ()
    left: Sequence[Span] = ()
    free: Sequence[Span] = ()

    @property
    def plainly_done(self) -> int:
        """How many tasks are plainly done."""
        return sum(hi - lo + 1 for lo, hi, _ in self.plain)

    def ended(self) -> list[int]:
        """The ids of those that may be over for good, as what goes back is if it was called off."""
        spans = (*self.plain, *self.free)
        return [task for lo, hi, _ in spans for task in range(lo, hi + 1)] + [entry.id for entry in self.entries]

    def going_back(self) -> list[int]:
        """The ids of those that are not over: who called one off while this was written is answered after it."""
        entries = [entry.id for entry in self.entries if entry.verdict in _NOT_OVER]
        return entries + [task for lo, hi, _ in self.free for task in range(lo, hi + 1)]

    @property
    def busy_seconds(self) -> float:
        """What all of them took."""
        return self.seconds * self.plainly_done + sum(entry.seconds or 0.0 for entry in self.entries)


def settlement(claim: Claim, *, give_back: bool = False) -> Settlement:
    """What has a verdict; the rest stays claimed, or goes back unstarted."""
    places, entries = claim.over()
    tasks = sum(stop - start for start, stop in places)
    free = [(entry.id, entry.id, entry.spent) for entry in entries if entry.verdict == BACK]
    ended = [entry for entry in entries if entry.verdict != BACK]
    rest = claim.ids(claim.rest())
    left, free = ([], free + rest) if give_back else (rest, free)
    return Settlement(claim, claim.ids(places), claim.busy_seconds / max(tasks, 1), ended, claim.outputs(), left, free)


def statement(settlement: Settlement, tally: dict[str, int]) -> tuple[str, Parameters]:
    """The statement that settles it, with its parameters; ``tally`` is the worker's so far."""
    base: Parameters = {
        "token": settlement.claim.token,
        "step": settlement.claim.step,
        "done": settlement.plainly_done + sum(entry.verdict == DONE for entry in settlement.entries),
        "busy": settlement.busy_seconds,
    }
    spans = [(lo, hi, spent + 1, settlement.seconds) for lo, hi, spent in settlement.plain]
    if settlement.entries or settlement.outputs or settlement.left or settlement.free:
        return "settle", {**base, **_general(settlement, spans, tally)}
    los, his, tries, seconds = _columns(spans, 4)
    return "settle_plain", {**base, "los": los, "his": his, "tries": tries, "seconds": seconds}


def tallied(tally: Mapping[str, int], labels: Iterable[str]) -> dict[str, int]:
    """The counts with those of ``labels`` added; after a hundred different ones the others are counted together."""
    counts = dict(tally)
    for label in labels:
        known = label if label in counts or len(counts) < MOST_LABELS else OTHERS
        counts[known] = counts.get(known, 0) + 1
    return counts


def following(settlements: Sequence[Settlement]) -> list[dict[str, Any]]:
    """What the handlers of tasks that are done want enqueued, each with the parent and the token it depends on."""
    return [
        {**row, "parent": entry.id, "token": settlement.claim.token}
        for settlement in settlements
        for entry in settlement.entries
        if entry.then and entry.verdict == DONE
        for row in entry.then
    ]


def _general(settlement: Settlement, spans: list[tuple[Any, ...]], tally: dict[str, int]) -> Parameters:
    entries = settlement.entries
    kept = [entry for entry in entries if entry.verdict == DONE]
    rows: list[tuple[Any, ...]] = [(*span, None, None) for span in spans]
    rows += [(e.id, e.id, e.attempt, e.seconds or 0.0, e.label, e.result) for e in kept]
    los, his, tries, seconds, labels, results = _columns(rows, 6)
    left_los, left_his, left_attempts = _columns(settlement.left, 3)
    free_los, free_his, free_attempts = _columns(settlement.free, 3)
    return {
        "los": los,
        "his": his,
        "tries": tries,
        "seconds": seconds,
        "labels": labels,
        "results": results,
        "left_los": left_los,
        "left_his": left_his,
        "left_attempts": left_attempts,
        "free_los": free_los,
        "free_his": free_his,
        "free_attempts": free_attempts,
        "ended": json.dumps([_ended(e) for e in entries if e.verdict != DONE]),
        "outputs": json.dumps([{"id": e.id, "attempt": e.attempt, "output": e.output} for e in settlement.outputs]),
        "failed": sum(e.verdict == FAILED for e in entries),
        "retried": sum(e.verdict == RETRY for e in entries),
        "tally": json.dumps(tally) if tally else None,
    }


def _ended(entry: Entry) -> dict[str, Any]:
    return {
        "id": entry.id,
        "attempt": entry.attempt,
        "verdict": entry.verdict,
        "error_kind": entry.error_kind,
        "error": entry.error,
        "seconds": entry.seconds,
        "delay": entry.delay,
        "until": entry.until,
    }


def _columns(rows: Iterable[tuple[Any, ...]], width: int) -> list[list[Any]]:
    """Rows turned into ``width`` columns, for unnest."""
    turned = [list(column) for column in zip(*rows, strict=True)]
    return turned or [[] for _ in range(width)]
