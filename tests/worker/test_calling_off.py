"""What a keeper does about tasks that somebody wants called off, without a runner: what it marks, and what it takes back."""

import os
from typing import Any, cast

import pytest

from stoker.sql.target import Target
from stoker.worker import pen as pen_module
from stoker.worker.book import CANCELLED, DONE, FAILED, HELD, RETRY, SNOOZE, UNKNOWN, Book, Chunk, Claim, Entry
from stoker.worker.journal import Journal
from stoker.worker.limits import Limits
from stoker.worker.orders import ModeOrders, Orders
from stoker.worker.pen import Pen
from stoker.worker.settlement import settlement
from stoker.worker.shift import Bell, Shift
from stoker.worker.slate import Slate, create
from stoker.worker.verdict import charge, judge


def at_work() -> tuple[Shift, Pen, Book, Slate]:
    """A shift whose runner runs task 1 of four that it was fed; four more are claimed and not fed."""
    orders = Orders("w", 1, 1, "i", "/", ModeOrders("m", "jobs:m"), Target("postgresql:///x"))
    book, bell = Book(), Bell()
    pen = Pen(orders, {}, book, bell.ring)
    page = create()
    slate = pen._slate = Slate(page)
    os.close(page)
    for lo in (11, 21):
        book.claims.append(Claim(f"token {lo}", [(lo, lo + 3, 0)], [Chunk(4, "1,2,3,4")], started=True))
    book.feed(book.claims[0], now=1.0)
    slate.start(1, 10**18)
    shift = Shift(orders, pen, book, Limits(0.0, None, None, 1.0), Journal(), bell, cast(Any, None))
    return shift, pen, book, slate


def test_what_is_not_fed_goes_back_and_never_starts() -> None:
    """No attempt is spent: the settlement drops what goes back and is called off."""
    shift, _, book, slate = at_work()
    shift.call_off([22, 24])
    shift._see_who_is_called_off()
    assert settlement(book.claims[1]).free == [(22, 22, 0), (24, 24, 0)]
    assert settlement(book.claims[1]).entries == []
    assert slate.called_off() == []
    assert settlement(book.claims[0]).free == []


def test_what_is_fed_and_has_not_started_is_taken_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """With all that stands behind what runs, which goes back to the queue."""
    monkeypatch.setattr(pen_module, "_SEEN_SECONDS", 0.0)
    shift, pen, book, slate = at_work()
    monkeypatch.setattr(Pen, "stuck", lambda _: 0.0)
    shift._see_who_is_called_off()
    shift._give_back()
    assert settlement(book.claims[0]).free == []
    shift.call_off([13])
    shift._see_who_is_called_off()
    shift._give_back()
    assert pen._taken_after == 1
    assert not slate.start(3, 10**18, pair=1)
    assert (13, 13, 0) in settlement(book.claims[0]).free
    assert settlement(book.claims[0]).left == [(11, 11, 0)]


def test_what_runs_is_marked_on_the_page_and_in_the_book_until_it_is_over() -> None:
    """Whoever is over needs no mark."""
    shift, _, book, slate = at_work()
    shift.call_off([11, 99])
    shift._see_who_is_called_off()
    assert slate.called_off() == [1]
    assert book.claims[0].entry(0).is_called_off
    slate.finish(1, 1)
    book.finish(1)
    shift._see_who_is_called_off()
    assert shift._called_off == set()


def entry(verdict: str, attempt: int = 1, **more: Any) -> Entry:
    """An entry in one attempt of three."""
    return Entry(1, attempt - 1, 3, verdict=verdict, **more)


@pytest.mark.parametrize(
    ("said", "side", "verdict"),
    [
        (entry(FAILED), False, RETRY),
        (entry(FAILED, 3), False, FAILED),
        (entry(FAILED, is_permanent=True), False, FAILED),
        (entry(FAILED), True, UNKNOWN),
        (entry(FAILED, is_retriable=True), True, RETRY),
        (entry(FAILED, is_permanent=True), True, FAILED),
        (entry(RETRY), True, RETRY),
        (entry(RETRY, 3), False, FAILED),
        (entry(SNOOZE, 3, delay=1.0), True, SNOOZE),
        (entry(HELD, 3), True, HELD),
        (entry(FAILED, is_called_off=True), False, CANCELLED),
        (entry(FAILED, is_called_off=True), True, UNKNOWN),
        (entry(FAILED, is_permanent=True, is_called_off=True), False, CANCELLED),
        (entry(RETRY, 3, is_called_off=True), True, CANCELLED),
        (entry(SNOOZE, is_called_off=True), False, CANCELLED),
        (entry(HELD, is_called_off=True), True, CANCELLED),
    ],
)
def test_an_attempt_that_is_not_done_is_judged(said: Entry, side: bool, verdict: str) -> None:
    """P3: a side effect that raised is unknown, whoever wants it called off; max_attempts bounds every retry."""
    judge(said, ModeOrders("m", side_effect=side))
    assert said.verdict == verdict
    assert (said.delay is not None) == (verdict in (RETRY, SNOOZE))


def test_a_retry_keeps_the_delay_that_was_asked_for() -> None:
    """Also none at all; without one the mode's backoff says."""
    asked, open_ = entry(RETRY, delay=0.0), entry(RETRY)
    for one in (asked, open_):
        judge(one, ModeOrders("m"))
    assert asked.delay == 0.0
    assert open_.delay is not None
    assert 1.0 <= open_.delay <= 2.0


def test_a_task_that_is_called_off_and_dies_is_cancelled() -> None:
    """Whatever ended its process."""
    one = entry(DONE, is_called_off=True)
    charge(one, 1.0, "", "SIGKILL", ModeOrders("m"))
    assert one.verdict == CANCELLED
