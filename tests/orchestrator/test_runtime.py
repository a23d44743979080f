"""The skeleton of standing loops: who goes on, who takes all down, and how soon."""

import os
import signal
import time
from collections.abc import Callable

import anyio
import anyio.lowlevel
import pytest
from anyio.to_thread import run_sync

from stoker.orchestrator.beats import Pulse
from stoker.orchestrator.runtime import CoreLoopError, Loop, Runtime
from stoker.sql.database import Database, DatabaseUnreachableError
from stoker.sql.target import Target


def run_for(seconds: float, database: Database, *loops: Loop) -> None:
    async def work() -> None:
        with anyio.move_on_after(seconds):
            await Runtime(database, loops, None).run()

    anyio.run(work)


def counting(counts: list[float], fail: Callable[[], Exception | None] = lambda: None) -> Callable[[], int]:
    def work() -> int:
        counts.append(time.monotonic())
        if error := fail():
            raise error
        return 1

    return work


def test_a_core_loop_that_fails_takes_everything_down(database: str) -> None:
    """Loudly, with its name; its neighbours end."""
    good: list[float] = []
    own = Database(Target(database))
    loops = (Loop("good", 0.05, counting(good)), Loop("bad", 0.05, counting([], lambda: ValueError("no"))))
    started = time.monotonic()
    with pytest.raises(CoreLoopError, match="loop bad failed: ValueError"):
        run_for(30, own, *loops)
    assert time.monotonic() - started < 10
    own.close()


def test_a_sidecar_that_fails_is_tried_again_later_and_its_neighbours_never_notice(database: str) -> None:
    """With backoff: the pauses grow."""
    good: list[float] = []
    bad: list[float] = []
    own = Database(Target(database))
    run_for(8, own, Loop("good", 0.1, counting(good)), Loop("bad", 0.01, counting(bad, lambda: ValueError("no")), core=False))
    assert len(good) > 20
    assert 2 <= len(bad) <= 5
    rows = own.run("watchdog_age")
    assert rows == []
    own.close()


def test_a_database_that_is_away_is_no_failure_of_a_core_loop(database: str) -> None:
    """R43: it recovers by itself."""
    counts: list[float] = []
    answers = iter([DatabaseUnreachableError("away")])
    own = Database(Target(database))
    run_for(4, own, Loop("core", 0.05, counting(counts, lambda: next(answers, None))))
    assert len(counts) > 5
    own.close()


def test_a_heartbeat_that_cannot_be_written_breaks_no_loop() -> None:
    """The work goes on."""
    counts: list[float] = []
    away = Database(Target("host=127.0.0.1 port=1 dbname=x"), patience_seconds=0.01)
    run_for(2, away, Loop("core", 0.05, counting(counts)))
    assert len(counts) > 3


def test_a_loop_that_stands_still_is_late_by_its_own_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """What /healthz tells: by monotonic time, without the database."""
    pulse = Pulse()
    pulse.beat("sweep", 60.0)
    pulse.beat("loop digest", 300.0)
    assert pulse.late() == {}
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + 100)
    assert {name: round(seconds) for name, seconds in pulse.late().items()} == {"sweep": 100}


def test_a_loop_that_was_ended_in_order_is_late_at_once_by_its_heartbeat(database: str) -> None:
    """Nobody waits minutes to hear that a process which said farewell is gone."""
    own = Database(Target(database))

    async def work() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(Runtime(own, [Loop("sweep", 60, lambda: 0)], None).run)
            with anyio.fail_after(10):
                while not await run_sync(own.run, "list_heartbeats"):
                    await anyio.lowlevel.checkpoint()
            os.kill(os.getpid(), signal.SIGTERM)

    anyio.run(work)
    ((component, *_, is_late, _, _, _),) = own.run("list_heartbeats")
    assert (component, is_late) == ("sweep", True)
    own.close()
