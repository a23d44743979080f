"""What users test their handlers with judges as a worker does."""

import asyncio
import gc
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.sql.oracle import Counts, check

from stoker.sql.enqueue import NewTask, enqueue, enqueue_many
from stoker.sql.payload import PayloadError
from stoker.worker.runner import Runner
from stoker.worker.task import Done, Fail, FollowUp, Hold, Retry, Snooze, Task
from stoker.worker.testing import Ran, drain, run_handler


def act(task: Task[Any]) -> Any:
    """Does what its payload says."""
    match task.payload:
        case {"return": value}:
            return value
        case {"raise": str(words)}:
            raise ValueError(words)
        case {"say": "retry"}:
            return Retry(5)
        case {"say": "snooze"}:
            return Snooze(60)
        case {"say": "fail"}:
            return Fail("never")
        case {"say": "hold"}:
            return Hold("which one?")
        case {"say": "then"}:
            return Done(1, then=[FollowUp("other", {"n": 2}, priority=3)])
        case {"say": "steps"}:
            return [task.step("a", lambda: 1), task.step("b", lambda: task.step("a", lambda: 2)), list(task.steps_done)]
        case _:
            return None


async def act_async(task: Task[Any]) -> Any:
    await asyncio.sleep(0)
    return act(task)


@pytest.mark.parametrize("handler", [act, act_async])
@pytest.mark.parametrize(
    ("payload", "ran"),
    [
        ({}, Ran("done")),
        ({"return": {"a": [1]}}, Ran("done", {"a": [1]})),
        ({"say": "fail"}, Ran("failed", error_kind="Fail", error="never")),
        ({"say": "snooze"}, Ran("snooze", delay=60.0)),
        ({"say": "hold"}, Ran("held", question="which one?")),
        ({"say": "retry"}, Ran("retry", delay=5.0)),
        ({"say": "steps"}, Ran("done", [1, 1, ["a", "b"]])),
    ],
)
def test_an_attempt_ends_as_it_would_in_a_fire(handler: Any, payload: Any, ran: Ran) -> None:
    """Sync and async, plain results and outcomes."""
    assert run_handler(handler, payload) == ran


def test_what_is_raised_is_a_verdict() -> None:
    """Tried again while attempts are left; by the mode's lists otherwise; in bounded, redacted words."""
    first = run_handler(act, {"raise": "no"}, max_attempts=2)
    assert (first.verdict, first.error_kind) == ("retry", "ValueError")
    assert first.delay is not None
    assert run_handler(act, {"raise": "no"}, max_attempts=2, attempt=2).verdict == "failed"
    assert run_handler(act, {"raise": "no"}, fail_on=("ValueError",)).verdict == "failed"
    assert run_handler(act, {"raise": "no"}, side_effect=True).verdict == "unknown"
    assert "a long word of the payload" not in str(run_handler(act, {"raise": "a long word of the payload"}).error)


def test_what_follows_is_shown() -> None:
    """Not enqueued: there is no database here."""
    ran = run_handler(act, {"say": "then"})
    assert (ran.verdict, ran.result) == ("done", 1)
    assert [(one["mode"], one["payload"], one["priority"]) for one in ran.then] == [("other", {"n": 2}, 3)]


def test_a_result_or_payload_that_is_no_json_is_told() -> None:
    """As the door and the runner tell it."""
    assert run_handler(lambda _: {1, 2}, {}).error_kind == "result not JSON"
    with pytest.raises(PayloadError):
        run_handler(act, {1, 2})


def test_a_queue_is_drained(database: str) -> None:
    """Through real claims and settlements; follow-ups of a drained mode too, what is for later stays."""
    with psycopg.connect(database, autocommit=True) as connection:
        enqueue_many(connection, [NewTask("m", {}) for _ in range(250)])
        for payload in ({"say": "then"}, {"raise": "no"}, {"say": "fail"}, {"say": "hold"}, {"return": 7}):
            enqueue(connection, NewTask("m", payload))
        enqueue(connection, NewTask("m", {}, available_at=datetime(2099, 1, 1, tzinfo=UTC)))
        drained = drain(database, {"m": act, "other": act_async})
        assert (drained.done, drained.failed, drained.retry, drained.other) == (253, 1, 1, 1)
        assert check(connection) == Counts(done=253, failed=1, held=1, later=2)
        assert connection.execute("select state from stoker.fires").fetchall() == [("closed",)]
        assert connection.execute("select count(*) from stoker.notes").fetchall() == [(1,)]


def test_a_thousand_handlers_leave_nothing_behind_in_the_tests_process() -> None:
    """Neither descriptors nor runners."""

    def left() -> tuple[int, int]:
        gc.collect()
        return len(list(Path("/proc/self/fd").iterdir())), sum(isinstance(one, Runner) for one in gc.get_objects())

    run_handler(act, {"return": 1})
    before = left()
    for _ in range(1000):
        run_handler(act, {"raise": "no"})
    assert left() == before == (before[0], 0)


def test_a_child_that_a_handler_forked_does_not_go_on_with_the_test() -> None:
    """It ends where the handler does."""

    def forks(_: Task[Any]) -> int:
        pid = os.fork()
        return os.waitpid(pid, 0)[1] if pid else 7

    assert run_handler(forks, None) == Ran("done", 0)
