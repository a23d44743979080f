"""When a runner must be ended."""

from stoker.worker.limits import SILENT, TIMEOUT, Limits


def test_a_runner_that_starts_nothing_for_half_a_minute_is_ended() -> None:
    """P12: looks are counted, ten a second; one sign of life and the count begins anew."""
    limits = Limits(born=0.0, timeout=None, wall_clock=None, grace=1.0)
    looks = [limits.kill(None, now, is_silent=now != 299) for now in range(299 + 302)]
    assert looks == [None] * (299 + 301) + [SILENT]


def test_time_that_passes_without_a_look_ends_nobody() -> None:
    """A machine that was asleep for an hour says nothing about the runner."""
    limits = Limits(born=0.0, timeout=5.0, wall_clock=None, grace=1.0)
    assert limits.kill(None, 1.0, is_silent=True) is None
    assert limits.kill(None, 3601.0, is_silent=True) is None
    assert limits.kill(5.1, 3602.0) == TIMEOUT
