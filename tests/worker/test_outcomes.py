"""Outcomes as values: what they refuse, and what they tell."""

import asyncio
import math
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from stoker.worker import task as task_module
from stoker.worker.outcomes import Done, Fail, FollowUp, Hold, Retry, Snooze
from stoker.worker.task import Task


@pytest.mark.parametrize("given", [-1, math.nan, math.inf, 1e30, True, "5", timedelta(days=-1), None])
def test_a_time_that_is_none_is_refused_where_it_is_written(given: Any) -> None:
    """In the handler's own line, not in the database."""
    for make in (Snooze, lambda it: FollowUp("m", delay=it), *([Retry] if given is not None else [])):
        with pytest.raises(ValueError, match="a number of seconds from 0"):
            make(given)


def test_a_time_of_day_needs_a_zone() -> None:
    """P12: the database is the clock, so it is told the instant, not how long this machine thinks it is."""
    with pytest.raises(ValueError, match="has no time zone"):
        Snooze(datetime(2030, 1, 1))
    with pytest.raises(ValueError, match="beyond the years"):
        Snooze(datetime.max.replace(tzinfo=UTC))
    east = timezone(timedelta(hours=5))
    assert Snooze(datetime(2030, 1, 1, tzinfo=east)).facts() == {"said": "snooze", "until": "2030-01-01T00:00:00+05:00"}


def test_each_says_what_it_is() -> None:
    """In the words of a settlement."""
    assert Retry().facts() == {"said": "retry", "delay": None, "error": None}
    assert Retry(timedelta(minutes=1), "busy").facts() == {"said": "retry", "delay": 60.0, "error": "busy"}
    assert Snooze(5).facts() == {"said": "snooze", "delay": 5.0}
    assert Fail("no").facts() == {"said": "failed", "error_kind": "Fail", "error": "no", "is_permanent": True}
    assert Hold("a\0b").facts() == {"said": "held", "error": "a\ufffdb"}
    for nothing in ("", None):
        with pytest.raises(ValueError, match="needs the question"):
            Hold(nothing)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="FollowUp"):
        Done(then=["mail"])  # type: ignore[list-item]


def test_they_are_found_beside_task() -> None:
    """One import for handlers."""
    for name in ("Done", "Retry", "Snooze", "Fail", "Hold", "FollowUp"):
        assert getattr(task_module, name).__name__ == name
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = task_module.Nothing


def test_a_handler_can_be_called_by_hand_without_a_keeper() -> None:
    """As its author's tests do: steps are done once for this task, progress goes nowhere, nobody cancels."""
    task, calls = Task(1, "m", None, 1, ""), list[int]()

    async def work() -> int:
        calls.append(1)
        return 2

    assert task.step("a", lambda: (1, 2)) == [1, 2]  # type: ignore[comparison-overlap]
    assert [asyncio.run(task.step_async("b", work)) for _ in range(2)] == [2, 2]
    assert (calls, task.steps_done) == ([1], ("a", "b"))
    task.progress(0.5, "half")
    assert not task.cancelled
    for wrong in (-0.1, 1.1, math.nan, "x"):
        with pytest.raises(ValueError, match="from 0 to 1"):
            task.progress(wrong)  # type: ignore[arg-type]
