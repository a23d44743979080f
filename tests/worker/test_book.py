"""The claims a keeper holds."""

import json

from hypothesis import given
from hypothesis import strategies as st

from stoker.sql.layout import PARTITION_IDS
from stoker.worker.book import DONE, FAILED, Book, Chunk, Claim, Places, Span
from stoker.worker.settlement import MOST_LABELS, OTHERS, tallied


def made(*spans: Span, **changes: object) -> Claim:
    tasks = sum(hi - lo + 1 for lo, hi, _ in spans)
    claim = Claim("token", list(spans), [Chunk(tasks, ",".join(["null"] * tasks))], started=True, cap=3)
    for name, value in changes.items():
        setattr(claim, name, value)
    return claim


def fed(*spans: Span) -> tuple[Book, Claim]:
    book, claim = Book(), made(*spans)
    book.claims.append(claim)
    book.feed(claim, now=1.0)
    return book, claim


def each(spans: list[Span]) -> list[tuple[int, int]]:
    return [(task, spent) for lo, hi, spent in spans for task in range(lo, hi + 1)]


def count(places: list[Places]) -> list[int]:
    return [place for start, stop in places for place in range(start, stop)]


SPANS = st.lists(st.tuples(st.integers(1, 4), st.integers(0, 3), st.integers(0, 2)), min_size=1, max_size=12)


def spans_of(shapes: list[tuple[int, int, int]]) -> list[Span]:
    """Spans that ascend: their lengths, the gaps before them, the attempts spent; the first lies across a border."""
    found, lo = [], PARTITION_IDS - 2
    for length, gap, spent in shapes:
        lo += gap
        if lo < PARTITION_IDS < lo + length:
            lo = PARTITION_IDS
        found.append((lo, lo + length - 1, spent))
        lo += length
    return found


@given(SPANS, st.data())
def test_ids_are_exactly_those_at_the_places(shapes: list[tuple[int, int, int]], data: st.DataObject) -> None:
    """No id is lost, none is added, and each run is of one number of attempts and of one partition."""
    spans = spans_of(shapes)
    claim = made(*spans)
    start = data.draw(st.integers(0, claim.size - 1))
    stop = data.draw(st.integers(start + 1, claim.size))
    found = claim.ids([(start, stop)])
    assert each(found) == each(spans)[start:stop]
    assert not [span for span in found if span[0] < PARTITION_IDS <= span[1]]


MOVES = st.lists(st.tuples(st.sampled_from(["finish", "say", "end", "settle"]), st.integers(0, 47)), max_size=30)


@given(SPANS, MOVES)
def test_every_task_is_settled_once_however_it_ends(shapes: list[tuple[int, int, int]], moves: list[tuple[str, int]]) -> None:
    """P2: plainly and in order, with words, out of order, settled in parts: each place comes up once."""
    book, claim = fed(*spans_of(shapes))
    ids = [task for task, _ in each(claim.spans)]
    settled: list[int] = []
    for move, number in [*moves, ("finish", claim.size - 1), ("settle", 0)]:
        place = number % claim.size
        is_open = place >= claim.passed and place not in claim.ahead
        if move == "finish":
            book.finish(claim.base + place)
        elif move == "say" and is_open:
            claim.entry(place).said = FAILED
        elif move == "end" and is_open:
            claim.end(place)
        elif move == "settle":
            places, entries = claim.over()
            now = count(places) + [ids.index(entry.id) for entry in entries]
            assert bool(now) == claim.has_over
            assert sorted(now + count(claim.rest()) + settled) == list(range(claim.size))
            settled += now
            claim.settle()
    assert sorted(settled) == list(range(claim.size))


def test_what_a_dead_runner_did_not_end_is_fed_again_and_what_it_ended_is_not() -> None:
    """P2: numbers start anew with each runner; a verdict stands, a word without one is forgotten."""
    book, claim = fed((1, 4, 0))
    assert [(tasks, entries) for _, tasks, entries in book.finish(1)] == [(1, [])]
    claim.entry(2).said = FAILED
    claim.end(1)
    book.take_back()
    assert not claim.is_fed
    book.feed(claim, now=2.0)
    assert (claim.base, claim.rest()) == (1, [(2, 4)])
    assert claim.entry(2).said is None
    assert claim.entry(1).verdict == DONE


def test_what_was_said_is_no_verdict_until_the_task_counts_as_finished() -> None:
    """A result in the pipe comes before the page says that its task is over: till then it is held."""
    book, claim = fed((1, 2, 0))
    claim.entry(0).said = FAILED
    assert claim.entry(0).verdict is None
    assert claim.open == 2
    ((_, tasks, entries),) = book.finish(2)
    assert (tasks, [entry.verdict for entry in entries]) == (2, [FAILED])
    assert claim.is_over


def test_a_number_finds_its_task_in_whichever_claim_was_fed() -> None:
    """Claims are numbered on, one after the other; what was never fed is not found."""
    book, _ = fed((5, 6, 0))
    second = made((9, 9, 2))
    book.feed(second, now=1.0)
    assert book.find(3) == (second, 0)
    assert second.entry(0).attempt == 3
    assert (book.find(0), book.find(4)) == (None, None)
    assert [tasks for _, tasks, _ in book.finish(3)] == [2, 1]


def test_a_task_with_words_of_its_own_has_its_own_limit_of_attempts() -> None:
    """Its own limit where it has one, else its mode's."""
    claim = made((1, 3, 0), caps={1: 7})
    assert [claim.entry(place).max_attempts for place in range(3)] == [3, 7, 3]


@given(st.lists(st.recursive(st.none() | st.integers() | st.text(), st.lists, max_leaves=5), min_size=1))
def test_a_chunk_gives_back_each_payloads_own_text(payloads: list[object]) -> None:
    """A program gets its payload as it was enqueued, byte for byte."""
    texts = [json.dumps(payload, indent=1) for payload in payloads]
    assert list(Chunk(len(texts), ",".join(texts)).texts()) == texts


def test_a_task_is_located_by_its_id() -> None:
    """Among the spans of every claim, whether they are fed or not."""
    book = Book()
    book.claims.extend(Claim(f"t{lo}", [(lo, lo + 1, 0), (lo + 50, lo + 52, 1)], [], started=True) for lo in (10, 20))
    found = [book.locate(task) for task in (10, 61, 72, 12, 63)]
    assert [f and (f[0].token, f[1]) for f in found] == [("t10", 0), ("t10", 3), ("t20", 4), None, None]


def test_a_tally_is_bounded_and_adds_up() -> None:
    """P4: a label that is another for each task makes no note of a thousand lines, and no task uncounted."""
    tally = tallied({}, (f"label {n % 1000}" for n in range(3000)))
    tally = tallied(tally, ["label 7", "new"])
    assert (len(tally), sum(tally.values())) == (MOST_LABELS + 1, 3002)
    assert (tally["label 7"], tally[OTHERS]) == (4, 2701)
