"""The shared page: what one process writes, the other reads, also when the writer is gone."""

import os

from stoker.worker.slate import MOST_AT_A_TIME, Slate, create


def pair() -> tuple[Slate, Slate]:
    """Two views on one page."""
    page = create()
    views = Slate(page), Slate(page)
    os.close(page)
    return views


def test_a_task_runs_from_its_start_until_it_is_finished() -> None:
    """What is finished does not run, though its number still stands."""
    runner, keeper = pair()
    assert keeper.running() == []
    assert runner.start(1, 500)
    assert keeper.running() == [(1, 500)]
    runner.finish(1, 40)
    assert (keeper.running(), keeper.finished, keeper.busy_seconds) == ([], 1, 4e-8)


def test_tasks_that_run_at_the_same_time_are_told_apart_the_longest_first() -> None:
    """Each has a pair of its own, which is left when it is over, whatever the others do."""
    runner, keeper = pair()
    for number, started_at in ((1, 30), (2, 10), (3, 20)):
        assert runner.start(number, started_at, pair=number)
    assert keeper.running(4) == [(2, 10), (3, 20), (1, 30)]
    runner.leave(2)
    assert keeper.running(4) == [(3, 20), (1, 30)]
    assert runner.start(9, 1, pair=MOST_AT_A_TIME - 1)
    assert keeper.running(MOST_AT_A_TIME)[0] == (9, 1)


def test_what_was_taken_back_does_not_start_and_what_comes_after_does() -> None:
    """P1: the runner is told no, and stands as idle."""
    runner, keeper = pair()
    assert runner.start(3, 1)
    keeper.take(4, 6)
    for number in (4, 5, 6):
        assert not runner.start(number, 2)
        assert keeper.running() == []
    assert runner.start(7, 2)
    assert keeper.running() == [(7, 2)]


def test_tasks_that_end_in_any_order_are_each_told_of_once() -> None:
    """Also round the end of the ring; what finds no room in it is refused, and nothing is overwritten."""
    runner, keeper = pair()
    assert (keeper.ended, keeper.read_ended()) == (0, [])
    told = []
    for number in range(1, 1001):
        if not runner.end(number, 10 * number):
            waiting = keeper.ended
            told += (read := keeper.read_ended())
            assert waiting == len(read)
            assert runner.end(number, 10 * number)
    told += keeper.read_ended()
    assert told == [(number, number / 1e8) for number in range(1, 1001)]
    assert (keeper.ended, keeper.read_ended()) == (0, [])


def test_the_pairs_and_the_ring_do_not_meet() -> None:
    """The last pair and the first of the ring are words of their own."""
    runner, keeper = pair()
    assert runner.start(7, 70, pair=MOST_AT_A_TIME - 1)
    assert runner.end(3, 30)
    assert (keeper.running(MOST_AT_A_TIME), keeper.read_ended()) == ([(7, 70)], [(3, 3e-8)])


def test_a_task_that_runs_can_be_called_off_and_no_other() -> None:
    """What is over, or has not begun, is not marked; a mark is never that of the next in its place."""
    runner, keeper = pair()
    runner.start(1, 10)
    runner.start(2, 10, pair=1)
    assert not keeper.call_off(3, 2)
    assert keeper.call_off(2, 2)
    assert runner.called_off(2) == [2]
    runner.finish(1, 5)
    assert not keeper.call_off(1, 2)
    runner.start(3, 10, pair=1)
    assert 3 not in runner.called_off(2)
    runner.start(9, 1, pair=MOST_AT_A_TIME - 1)
    assert keeper.call_off(9, MOST_AT_A_TIME)
