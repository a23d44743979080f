"""The claims a keeper holds."""

from hypothesis import given
from hypothesis import strategies as st

from stoker.worker.book import DONE, Book, Claim, Entry, runs


def entries(*ids: int, spent: int = 0) -> list[Entry]:
    return [Entry(task, spent, 3, "null") for task in ids]


@given(st.lists(st.tuples(st.integers(0, 300), st.integers(0, 2)), unique_by=lambda pair: pair[0]))
def test_runs_cover_exactly_the_entries(pairs: list[tuple[int, int]]) -> None:
    """No id is lost, none is added, and each run is of one number of attempts."""
    given_entries = [Entry(task, spent, 3, "null") for task, spent in sorted(pairs)]
    covered = [(task, spent) for lo, hi, spent in runs(given_entries) for task in range(lo, hi + 1)]
    assert covered == sorted(pairs)


def test_what_a_dead_runner_did_not_end_is_fed_again_and_what_it_ended_is_not() -> None:
    """P2: numbers start anew with each runner; a verdict stands."""
    book, claim = Book(), Claim("token", entries(1, 2, 3), started=True)
    book.claims.append(claim)
    book.feed(claim, now=1.0)
    assert [entry.id for entry in book.finish(1)] == [1]
    book.take_back()
    first, again = book.feed(claim, now=2.0)
    assert (first, [entry.id for entry in again]) == (1, [2, 3])
    assert claim.entries[0].verdict == DONE


def test_what_was_said_is_no_verdict_until_the_task_counts_as_finished() -> None:
    """A result in the pipe comes before the page says that its task is over: till then it is held."""
    book, claim = Book(), Claim("token", entries(1, 2), started=True)
    book.claims.append(claim)
    book.feed(claim, now=1.0)
    claim.entries[0].said = DONE
    assert not claim.entries[0].verdict
    assert book.held == 2
    book.finish(2)
    assert claim.is_over
