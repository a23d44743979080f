"""Handlers, programs and readers that misbehave cost themselves, and nobody else."""

import os
import shlex
import signal
import subprocess

import pytest
from tests.end_to_end.project import COMMAND, Project
from tests.waiting import wait_until

CONFIG = """
[limits]
max_pool = 1
task_cap = "none"
fires_per_day = "none"
wall_clock = "{wall_clock}"
[worker]
lease = "3s"
renew_every = "1s"
grace = "1s"
linger = "0s"
[modes.nap]
handler = "jobs:nap"
max_workers = 1
[modes.mute]
handler = "jobs:mute"
max_attempts = 1
[modes.mute_async]
handler = "jobs:mute_async"
max_attempts = 1
concurrency = 2
[modes.mute_program]
command = ["/bin/sh", "-c", "echo no >&2; exit 1"]
max_attempts = 1
[modes.scribbles]
handler = "jobs:scribbles"
max_attempts = 1
[modes.forks]
handler = "jobs:forks"
[modes.freezes]
handler = "jobs:freezes"
timeout = "1s"
max_attempts = 1


[modes.noprogram]
command = ["./badinterp"]
[modes.leaks]
handler = "jobs:leaks"
max_attempts = 1
"""
JOBS = """
class MuteError(Exception):
    def __str__(self):
        return self.args[7]


def nap(task):
    time.sleep(task.payload)


def mute(task):
    note(task, "start")
    if task.payload == "bad":
        raise MuteError("no words")


async def mute_async(task):
    mute(task)


def scribbles(task):
    note(task, "start")
    if task.payload == "scribble":
        for descriptor in range(3, 20):
            try: os.write(descriptor, b"garbage" * 1000)
            except OSError: pass
        time.sleep(600)


def forks(task):
    if task.payload == 1:
        os.fork()
    note(task, "start")


def freezes(task):
    note(task, "start")
    os.kill(os.getppid(), signal.SIGSTOP)
    time.sleep(60)


def leaks(task):
    name = task.payload.pop("name")
    raise ValueError(f"cannot use {name!r}")
"""


@pytest.fixture
def hostile(project: Project) -> Project:
    """A project with every misbehaving mode."""
    project.write(CONFIG.format(wall_clock="1m"), JOBS)
    return project


def test_a_stop_with_a_batch_in_hand_gives_back_what_was_not_started(project: Project) -> None:
    """P1, R23: the clock ends a worker in the middle of a batch of hundreds: one is charged, the rest go back free."""
    project.write(CONFIG.format(wall_clock="2s"), JOBS)
    ids = project.enqueue("nap", *[0.0005] * 300, 30, *[0.0005] * 300)
    done = project.json("fire")
    assert done["workers"]["exits"] == {"clock": 1}
    stands = dict(project.query("select id, status || ' ' || attempts from stoker.task_queue"))
    assert stands[ids[300]] == "queued 1"
    assert {stands[task] for task in ids[301:]} == {"queued 0"}
    assert {stands[task] for task in ids[:300]} == {"done 1"}


@pytest.mark.parametrize("mode", ["mute", "mute_async", "mute_program"])
def test_a_payload_that_python_cannot_read_costs_its_own_task_alone(hostile: Project, mode: str) -> None:
    """P1, R64: another program has put it in; the others of its batch are done, and no runner died of it."""
    hostile.query("select nextval('stoker.task_ids') from generate_series(1, 5)")
    hostile.query(
        "with made as (insert into stoker.tasks (id, mode, payload) values"
        " (1, %s, ' 1'), (2, %s, (repeat('[', 5000) || repeat(']', 5000))::json), (3, %s, ' \"x\"\t'),"
        " (4, %s, repeat('9', 5000)::json), (5, %s, '{}') returning id)"
        " insert into stoker.ready (mode, version, priority, lo, hi) values (%s, 1, 0, 1, 5) returning span",
        *[mode] * 6,
    )
    hostile.query("insert into stoker.workers (worker, fire, mode, ordinal, owner, lease_until, exited_at, done, busy_seconds)"
                  " values (gen_random_uuid(), 0, %s, 1, '{}', now(), now(), 1000, 0.001) returning 1", mode)  # fmt: skip
    facts = hostile.json("fire", "--mode", mode)
    assert facts["workers"]["respawns"] == 0
    stands = dict(hostile.query("select id, status from stoker.task_queue"))
    is_python = mode != "mute_program"
    assert facts["workers"]["exits"] == {"empty": 1}
    assert [stands[task] for task in range(1, 6)] == (["done", "failed"] * 2 + ["done"] if is_python else ["failed"] * 5)
    if is_python:
        kinds = hostile.query("select distinct error_kind, error like 'the payload cannot be read: %%' from stoker.failed")
        assert kinds == [("payload not valid", True)]


def test_an_error_that_cannot_say_what_it_is_is_an_ordinary_failure(hostile: Project) -> None:
    """R09: an exception class with a broken __str__ fails its own task; the others are done, and no runner died."""
    ids = hostile.enqueue("mute", *["bad"] * 8, *["good"] * 8)
    facts = hostile.json("fire")
    assert facts["workers"]["respawns"] == 0
    assert hostile.query("select distinct error_kind, split_part(error, ' (jobs', 1) from stoker.failed") == [
        ("MuteError", "(its text cannot be read)")
    ]
    stands = dict(hostile.query("select id, status from stoker.task_queue"))
    assert [stands[task] for task in ids] == ["failed"] * 8 + ["done"] * 8


def test_a_handler_that_forks_and_returns_twice_runs_the_rest_once(hostile: Project) -> None:
    """P2: the child of the fork does not go on with its parent's batch."""
    ids = hostile.enqueue("forks", 0, 1, *range(2, 40))
    assert hostile.run("fire").returncode == 0
    starts = [task for _, task, _, _ in hostile.ledger()]
    assert {task: starts.count(task) for task in ids} == {task: 2 if task == ids[1] else 1 for task in ids}


def test_a_frozen_keeper_is_ended_when_its_lease_is_over(hostile: Project) -> None:
    """P6: the barrier does not wait for the deadline of the fire."""
    hostile.enqueue("freezes", 1)
    facts = hostile.json("fire")
    assert [lost["how"] for lost in facts["workers"]["lost"]] == ["SIGKILL"]
    assert facts["seconds"] < 30
    assert hostile.tagged() == []


def test_a_program_that_cannot_be_started_burns_no_attempts(hostile: Project) -> None:
    """P11: one bad deploy does not fail the whole backlog."""
    (hostile.folder / "badinterp").write_text("#!/nonexistent/interpreter\n")
    (hostile.folder / "badinterp").chmod(0o755)
    hostile.enqueue("noprogram", 1, 2, 3)
    facts = hostile.json("fire")
    assert facts["workers"]["exits"] == {"broken": 1}
    assert hostile.query("select distinct status, attempts from stoker.task_queue") == [("queued", 0)]


def test_a_payload_that_the_handler_changed_is_masked_all_the_same(hostile: Project) -> None:
    """P9: what the error quotes is compared with the payload as it was, also where it was quoted with escapes."""
    hostile.enqueue("leaks", {"name": 'O\'Brien "canary"\n'})
    hostile.run("fire")
    ((error,),) = hostile.query("select error from stoker.failed")
    assert "canary" not in error
    assert "[payload.name]" in error


@pytest.mark.parametrize("how", ["closed", "gone"])
def test_nobody_needs_to_read_what_a_fire_says(hostile: Project, how: str) -> None:
    """P4: standard error closed, or its reader gone: the fire reaches its note."""
    hostile.enqueue("mute", "bad", "good")
    command = shlex.join(COMMAND)
    shell = f"{command} fire 2>&-" if how == "closed" else f"{command} fire 2>&1 >/dev/null | true; sleep 0"
    subprocess.run(["/bin/sh", "-c", shell], cwd=hostile.folder, env=hostile.environment(), timeout=60, check=False)
    wait_until(lambda: hostile.query("select 1 from stoker.notes") != [], 20, "no note")
    assert hostile.query("select facts->>'ended' from stoker.notes") == [("normal",)]


def test_a_hangup_ends_a_fire_like_a_term(hostile: Project) -> None:
    """P4: a closed terminal leaves a note, not an open fire."""
    hostile.enqueue("nap", 0.2, 0.2)
    fire = hostile.start("fire")
    wait_until(lambda: hostile.query("select 1 from stoker.workers where first_task_at is not null") != [], 20)
    os.kill(fire.pid, signal.SIGHUP)
    assert fire.wait(timeout=30) == 128 + signal.SIGHUP
    assert hostile.facts()["ended"] == "interrupted"


def test_a_handler_that_scribbles_on_every_descriptor_is_ended_and_charged_alone(project: Project) -> None:
    """P1: what was fed beside it is neither taken for done nor kept waiting for the lease; nothing it wrote is believed."""
    project.write(CONFIG.format(wall_clock="10m"), JOBS)
    tasks = project.enqueue("scribbles", "a", "scribble", *"bcdefgh")
    assert project.run("fire", timeout=60).returncode == 0
    stand = dict(project.query("select id, status || coalesce(' ' || error_kind, '') from stoker.task_queue"))
    assert stand.pop(tasks[1]) == "failed garbled"
    assert set(stand.values()) == {"done"}
    assert {task for _, task, *_ in project.ledger()} == set(tasks)
