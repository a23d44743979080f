"""The runner a keeper keeps, without one: what is heard, and when it counts."""

import os

import pytest

from stoker.sql.target import Target
from stoker.worker.book import Book, Chunk, Claim
from stoker.worker.capture import Ear
from stoker.worker.orders import ModeOrders, Orders
from stoker.worker.pen import Pen
from stoker.worker.settlement import settlement
from stoker.worker.slate import Slate, create
from stoker.worker.wire import Wire


def test_what_is_heard_changes_nothing_that_may_be_on_its_way_to_the_database() -> None:
    """P1: a task that ends, or is passed over, during a settlement belongs to the next one."""
    orders = Orders("w", 1, 1, "i", "/", ModeOrders("m", "jobs:m", concurrency=4), Target("postgresql:///x"))
    book, claim = Book(), Claim("token", [(1, 4, 0)], [Chunk(4, "1,2,3,4")], started=True)
    book.feed(claim, now=1.0)
    claim.end(0)
    pen = Pen(orders, {}, book, lambda: None)
    on_its_way = settlement(claim)
    for message in (["over", 2, 0.1], ["done", 2, '"x"', None, 0.1], ["back", 3]):
        pen._note(message)
    claim.settle()
    assert (on_its_way.plain, on_its_way.left) == ([(1, 1, 0)], [(2, 4, 0)])
    last = settlement(claim)
    assert (last.plain, last.entries, last.left) == ([], [], [(2, 4, 0)])
    assert claim.entry(1).result == '"x"'


def work_for(mode: ModeOrders) -> tuple[Pen, Book, Claim]:
    """A pen without a runner, with a page, pipes and ears, and four tasks that it was fed."""
    pen = Pen(Orders("w", 1, 1, "i", "/", mode, Target("postgresql:///x")), {}, Book(), lambda: None)
    page = create()
    pen._slate = Slate(page)
    os.close(page)
    pen._ear = Ear("nonce", 1000, lambda: 0)
    pen._wire = Wire(pen._note, pen._ear.hear)
    claim = Claim("token", [(1, 4, 0)], [Chunk(4, "1,2,3,4")], started=True)
    pen.book.claims.append(claim)
    pen.book.feed(claim, now=1.0)
    return pen, pen.book, claim


def test_what_the_runner_passed_over_is_not_done_though_it_is_counted() -> None:
    """P1: the runner counts a whole frame as finished, and has told before which of its tasks it did not start."""
    pen, _, claim = work_for(ModeOrders("m", "jobs:m"))
    assert pen._slate is not None
    assert pen._slate.start(1, 1)
    pen._slate.finish(1, 10)
    for number in (2, 3, 4):
        pen._note(["back", number])
    pen._slate.finish(4, 10)
    over = pen.harvest()
    left = settlement(claim)
    assert (over.tasks, left.plain, left.free, left.left) == (1, [(1, 1, 0)], [(2, 2, 0), (3, 3, 0), (4, 4, 0)], [])


def test_the_words_of_no_task_are_not_kept() -> None:
    """P10: what goes on printing behind tasks that are over grows nothing here."""
    pen, _, claim = work_for(ModeOrders("m", "jobs:m", concurrency=4))
    assert pen._ear is not None
    for number in range(5, 500):
        pen._ear.hear(b"\x1enonce %d\nwords\n" % number)
    pen._ear.hear(b"\x1enonce 2\nmine\n")
    pen.harvest()
    assert pen._ear.numbers() == [2]
    pen._note(["over", 2, 0.1])
    pen.harvest()
    assert claim.entry(1).output == "mine\n"
    assert pen._ear.numbers() == []


@pytest.mark.parametrize("concurrency", [1, 2])
def test_a_runner_that_starts_nothing_of_what_it_was_fed_is_silent(concurrency: int) -> None:
    """P12: it may be frozen between two tasks. One that has done everything, or runs something, is not."""
    pen, _, _ = work_for(ModeOrders("m", "jobs:m", concurrency=concurrency))
    assert pen._slate is not None
    assert pen.is_silent()
    pen._slate.start(1, 1)
    assert not pen.is_silent()
    for number in (1, 2, 3, 4):
        pen._slate.finish(number if concurrency == 1 else 0, 10)
        pen._slate.leave(0)
        if concurrency > 1 and not (number % 2 and pen._slate.end(number, 10)):
            pen._note(["over", number, 0.1])
    assert not pen.is_silent()
    pen.harvest()
    assert not pen.is_silent()
