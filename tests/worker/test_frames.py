"""What a keeper says to its runner."""

import json
from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from stoker.worker.book import Book, Chunk, Claim
from stoker.worker.frames import frames


def read(frame: bytes) -> Iterator[tuple[int, int, int, object]]:
    """(number, id, attempt, payload) of each task that a runner would run, as it reads a line."""
    assert frame.endswith(b"\n")
    assert frame.count(b"\n") == 1
    first, spans, passed, payloads = json.loads(frame)
    tasks = [(task, attempt) for lo, hi, attempt in spans for task in range(lo, hi + 1)]
    for place, ((task, attempt), payload) in enumerate(zip(tasks, payloads, strict=True)):
        if place not in passed:
            yield first + place, task, attempt, payload


def made(sizes: list[int], payload: str) -> tuple[Book, Claim]:
    """A claim of every second id, in chunks of these sizes."""
    count = sum(sizes)
    spans = [(2 * place + 1, 2 * place + 1, place % 3) for place in range(count)]
    chunks = [Chunk(size, ",".join([payload] * size)) for size in sizes]
    return Book(), Claim("token", spans, chunks, started=True)


@given(st.lists(st.integers(1, 5), min_size=1, max_size=6), st.integers(0, 20), st.sets(st.integers(0, 29)))
def test_every_task_without_a_verdict_is_said_once_with_its_number_and_payload(
    sizes: list[int], passed: int, ended: set[int]
) -> None:
    """P1: also after a runner's death, when some are over, in order or out of it."""
    book, claim = made(sizes, '{"a":\n 1}')
    claim.end_before(passed)
    for place in ended:
        if place < claim.size and claim.is_open(place):
            claim.end(place)
    book.feed(claim, now=1.0)
    said = [task for frame in frames(claim) for task in read(frame)]
    left = [place for place in range(claim.size) if claim.is_open(place)]
    assert said == [(1 + place, 2 * place + 1, place % 3 + 1, {"a": 1}) for place in left]


def test_a_frame_is_about_a_mebibyte() -> None:
    """Memory is bounded, and the runner can begin before all is said."""
    book, claim = made([4] * 10, json.dumps("x" * 100_000))
    book.feed(claim, now=1.0)
    said = list(frames(claim))
    assert len(said) == 4
    assert max(map(len, said)) < 1.3 * 1024 * 1024
    assert [number for frame in said for number, *_ in read(frame)] == list(range(1, 41))
