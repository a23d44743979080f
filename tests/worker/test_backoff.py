"""When a failed task is tried again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.worker.backoff import Backoff


def test_the_default_doubles_from_two_seconds_to_the_cap() -> None:
    """2, 4, 8 ... 256, then 300."""
    assert [Backoff().delay(n) for n in range(1, 11)] == [2, 4, 8, 16, 32, 64, 128, 256, 300, 300]


@pytest.mark.parametrize("base", [0, 1, 5, 1e6])
@pytest.mark.parametrize("attempt", [-1, 0, 1, 2, 63, 1024, 100_000])
def test_no_attempt_overflows(base: float, attempt: int) -> None:
    """R25: any attempt gives a delay within bounds."""
    assert 0 <= Backoff(base, 2, 300).delay(attempt) <= 300
    assert Backoff(base, 1, 300).delay(attempt) == min(base, 300)


def test_every_attempt_up_to_a_hundred_thousand_has_a_finite_delay() -> None:
    """R25: never less than before, never above the cap."""
    delays = [Backoff().delay(attempt) for attempt in range(1, 100_001)]
    assert delays == sorted(delays)
    assert (delays[0], delays[-1]) == (2, 300)


@given(st.integers(1, 10**6), st.floats(0, 1e9), st.floats(1, 1e9), st.floats(0, 1e9), st.floats(0, 1, exclude_max=True))
def test_jitter_stays_between_half_and_all_of_the_delay(
    attempt: int, base: float, factor: float, cap: float, chance: float
) -> None:
    """Whatever the policy, and whatever the dice say."""
    backoff = Backoff(base, factor, cap)
    delay = backoff.delay(attempt)
    assert 0 <= delay <= cap
    assert delay / 2 <= backoff.jittered(attempt, chance) <= delay
