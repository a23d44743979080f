"""How many tasks to take next, and from where on."""

import pytest

from stoker.worker.pace import BEFORE_ALL, Pace


def test_batches_grow_until_they_last_their_time() -> None:
    """A batch lasts about batch_time: short tasks many, long ones one at a time."""
    pace = Pace(batch_time=0.2, batch_limit=1000, expected=None)
    sizes = []
    for _ in range(8):
        sizes.append(pace.batch)
        pace.learn(pace.batch, pace.batch * 0.001)
    assert sizes == [1, 4, 16, 64, 200, 200, 200, 200]
    for _ in range(20):
        pace.learn(1, 30.0)
    assert pace.batch == 1


def test_a_measured_mode_starts_with_its_batch() -> None:
    """What earlier fires measured needs not be learned again; the limit holds."""
    assert Pace(0.2, 1000, expected=0.01).batch == 20
    assert Pace(0.2, 1000, expected=0.0).batch == 1000


def test_big_payloads_make_small_batches() -> None:
    """Memory is bounded: a batch holds about eight mebibytes of payload, and one text about one."""
    pace = Pace(0.2, 1000, expected=1e-6)
    pace.saw(rows=1, tasks=100, asked=100, last=(0, 100), size=50 * 1024 * 1024)
    assert (pace.batch, pace.chunk) == (16, 2)


def test_the_mark_moves_on_wraps_when_short_and_is_rewound_every_second() -> None:
    """Urgent tasks and retries stand before the mark: they are seen after a second at the latest."""
    pace = Pace(0.2, 1000, expected=None)
    pace.saw(rows=1, tasks=10, asked=10, last=(0, 10))
    assert pace.mark == (0, 10)
    pace.saw(rows=1, tasks=3, asked=10, last=(0, 13))
    assert pace.mark == BEFORE_ALL
    pace.saw(rows=1, tasks=10, asked=10, last=(0, 30))
    pace.rewind_if_due(now=100.0)
    assert pace.mark == BEFORE_ALL
    pace.saw(rows=1, tasks=10, asked=10, last=(0, 50))
    pace.rewind_if_due(now=100.9)
    assert pace.mark == (0, 50)


def test_span_rows_locked_follow_what_was_needed() -> None:
    """Long spans need few locks, singles as many as there are tasks."""
    pace = Pace(0.2, 1000, expected=None)
    pace.saw(rows=4, tasks=4, asked=100, last=(0, 4))
    assert pace.locks == 16
    for _ in range(5):
        pace.saw(rows=1, tasks=100, asked=100, last=(0, 4))
    assert pace.locks == 2


@pytest.mark.parametrize(("limit", "chunk"), [(1 << 20, 125), (100 << 20, 5), (1 << 30, 1)])
def test_a_text_of_payloads_never_exceeds_what_the_database_can_hold(limit: int, chunk: int) -> None:
    """Small ones may be followed by the largest that the door lets in."""
    pace = Pace(0.2, 1000, expected=1e-6, payload_limit=limit)
    pace.saw(rows=1, tasks=100, asked=100, last=(0, 100), size=100)
    assert pace.chunk == chunk
