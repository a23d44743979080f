"""Tasks that are called off while a worker holds them: what runs is told within about a second, and ends as it can."""

import sys
import time

import psycopg
import pytest
from tests.end_to_end.project import Project
from tests.sql.oracle import check
from tests.waiting import wait_until

JOBS = """
import asyncio
from stoker.worker.task import Hold, Retry, Snooze


def polite(task):
    note(task, "start")
    while not task.cancelled:
        time.sleep(0.01)
    note(task, "told")
    match task.payload:
        case "raise": raise ValueError("called off")
        case "retry": return Retry(0)
        case "snooze": return Snooze(1)
        case "hold": return Hold("go on?")
        case "done": return "done all the same"


def deaf(task):
    gated(task)
    return "done"


async def sleepy(task):
    note(task, "start")
    if task.payload == "short":
        while not (HERE / "gate").exists():
            await asyncio.sleep(0.01)
        return "done"
    try:
        await asyncio.sleep(600)
    except asyncio.CancelledError:
        note(task, "told")
        if task.payload == "done":
            return "done all the same"
        raise
"""

CONFIG = """
[limits]
max_pool = 1
task_cap = "none"
fires_per_day = "none"
[worker]
linger = "200ms"
[modes.polite]
handler = "jobs:polite"
max_attempts = 1
[modes.side]
handler = "jobs:polite"
side_effect = true
[modes.deaf]
handler = "jobs:deaf"
[modes.sleepy]
handler = "jobs:sleepy"
[modes.many]
handler = "jobs:sleepy"
concurrency = 4
"""


@pytest.fixture
def running(project: Project) -> Project:
    """The project with handlers that run until they are told."""
    project.write(CONFIG, JOBS)
    return project


def call_off(project: Project, *tasks: int) -> None:
    """As an operator does for a task that a worker holds."""
    for task in tasks:
        project.query("insert into stoker.cancel_requests (id, actor, reason) values (%s, 'ann', 'why not') returning id", task)


def state(project: Project, task: int) -> str:
    ((status,),) = project.query("select status from stoker.task_queue where id = %s", task)
    return str(status)


def ends(project: Project, task: int, status: str) -> None:
    """The task comes to stand there, and everything stands somewhere."""
    wait_until(lambda: state(project, task) == status, 10, f"{status}, and it is {state(project, task)}")
    with psycopg.connect(project.url) as connection:
        check(connection)


@pytest.mark.parametrize("mode", ["polite", "side"])
@pytest.mark.parametrize("how", ["raise", "retry", "snooze", "hold"])
def test_what_runs_is_told_and_is_not_tried_again(running: Project, mode: str, how: str) -> None:
    """P3: a side effect that raised is unknown even so; who says that it comes to nothing is believed."""
    (task,) = running.enqueue(mode, how)
    fire = running.start("fire")
    running.wait_for_starts(1)
    asked_at = time.monotonic()
    call_off(running, task)
    wait_until(lambda: running.ledger("told"), 5, "the handler is told")
    assert time.monotonic() - asked_at < 2.5
    ends(running, task, "unknown" if (mode, how) == ("side", "raise") else "cancelled")
    assert fire.wait(timeout=30) == 0
    assert len(running.ledger()) == 1
    if (mode, how) != ("side", "raise"):
        assert running.query("select actor, reason, attempts from stoker.cancelled") == [("ann", "why not", 1)]
        assert running.query("select verdict from stoker.attempts") == [("cancelled",)]
        assert running.query("select count(*) from stoker.cancel_requests") == [(0,)]


@pytest.mark.parametrize(("mode", "payload"), [("polite", "done"), ("sleepy", "done"), ("many", "done")])
def test_what_returns_normally_is_done(running: Project, mode: str, payload: str) -> None:
    """R53: the first commit wins."""
    (task,) = running.enqueue(mode, payload)
    running.start("fire")
    running.wait_for_starts(1)
    call_off(running, task)
    ends(running, task, "done")


def test_a_handler_that_never_looks_goes_on_to_its_end(running: Project) -> None:
    """What stands behind it is not held up, and is done."""
    first, *others = running.enqueue("deaf", *range(3))
    running.start("fire")
    running.wait_for_starts(1)
    call_off(running, first)
    time.sleep(1.5)  # long enough to be told
    assert state(running, first) == "in_progress"
    running.open_gate()
    ends(running, first, "done")
    for task in others:
        ends(running, task, "done")


def test_of_async_tasks_only_the_one_is_cancelled(running: Project) -> None:
    """Its scope alone; those beside it go on."""
    others = running.enqueue("many", "short", "short")
    (task,) = running.enqueue("many", "long")
    running.start("fire")
    running.wait_for_starts(3)
    call_off(running, task)
    ends(running, task, "cancelled")
    assert [state(running, other) for other in others] == ["in_progress"] * 2
    running.open_gate()
    for other in others:
        ends(running, other, "done")
    assert len({pid for *_, pid in running.ledger()}) == 1


def test_an_async_task_that_runs_alone_is_cancelled(running: Project) -> None:
    """And the next one is run by the same process, and is not mistaken for it."""
    task, other = running.enqueue("sleepy", "long", "short")
    running.start("fire")
    running.wait_for_starts(1)
    call_off(running, task)
    ends(running, task, "cancelled")
    running.wait_for_starts(2)
    time.sleep(0.8)  # long enough for several looks at the page
    running.open_gate()
    ends(running, other, "done")
    assert len({pid for *_, pid in running.ledger()}) == 1


PROGRAM = """
import os, signal, subprocess, sys, time
if sys.stdin.read() == '"done"':
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
child = subprocess.Popen(["sleep", "600"])
open("started", "a").write(f"{child.pid}\\n")
while True:
    time.sleep(0.05)
"""


@pytest.mark.parametrize(("payload", "status"), [("die", "cancelled"), ("done", "done")])
def test_a_program_is_told_by_a_signal_and_its_tree_ends(project: Project, payload: str, status: str) -> None:
    """TERM to all of it; the exit status is the verdict."""
    project.write(f'[worker]\nlinger = "100ms"\n[modes.p]\ncommand = ["{sys.executable}", "-S", "p.py"]')
    (project.folder / "p.py").write_text(PROGRAM)
    (task,) = project.enqueue("p", payload)
    fire = project.start("fire")
    started = project.folder / "started"
    wait_until(lambda: started.exists() and started.read_text(), 20, "the program")
    call_off(project, task)
    ends(project, task, status)
    assert fire.wait(timeout=30) == 0
    assert project.tagged() == []
    assert project.query("select respawns from stoker.workers") == [(0,)]
