"""The runner a keeper keeps, without one: what is heard, and when it counts."""

from stoker.sql.target import Target
from stoker.worker.book import Book, Chunk, Claim
from stoker.worker.desk import settlement
from stoker.worker.orders import ModeOrders, Orders
from stoker.worker.pen import Pen


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
