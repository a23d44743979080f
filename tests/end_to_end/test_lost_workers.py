"""Workers that die: what they held is freed, what they ran is charged, and the note says who was lost."""

import os
import signal

import pytest
from tests.end_to_end.project import Project
from tests.waiting import wait_until

CONFIG = """
[limits]
max_pool = 4
fires_per_day = "none"
[worker]
grace = "2s"
linger = "3s"
[modes.pure]
handler = "jobs:gated"
backoff_base = "50ms"
[modes.side]
handler = "jobs:gated"
side_effect = true
[modes.deadly]
handler = "jobs:deadly"
max_attempts = 3
backoff_base = "10ms"
max_workers = 1
[modes.last]
handler = "jobs:gated"
max_attempts = 1
"""


@pytest.mark.parametrize("kills_orchestrator", [False, True])
def test_killed_workers_give_back_every_task_with_one_attempt_spent(project: Project, kills_orchestrator: bool) -> None:
    """P1, R01: pure tasks are queued again, side effects become unknown and are not run again, nothing stays claimed."""
    project.write(CONFIG)
    pure, side = project.enqueue("pure", *range(10)), project.enqueue("side", *range(10))
    fire = project.start("fire")
    project.wait_for_starts(4)
    started = {task for _, task, _, _ in project.ledger()}
    if kills_orchestrator:
        fire.kill()
        fire.wait()
    for pid in project.keepers():
        os.kill(pid, signal.SIGKILL)
    if not kills_orchestrator:
        assert fire.wait(timeout=30) == 0
    facts = project.json("sweep")
    assert facts["fires_closed"] == ([1] if kills_orchestrator else [])

    assert project.query("select count(*) from stoker.claims") == [(0,)]
    stands = dict(project.query("select id, status || ' ' || attempts from stoker.task_queue"))
    assert {stands[task] for task in started & set(pure)} == {"queued 1"}
    assert {stands[task] for task in started & set(side)} == {"unknown 1"}
    assert {stands[task] for task in {*pure, *side} - started} == {"queued 0"}
    assert not project.tagged()
    note = project.facts(1)
    assert len(note["workers"]["lost"]) == 4
    assert any(need["what"] == "unknown outcome" for need in note["needs"])

    project.open_gate()
    assert project.run("fire").returncode == 0
    assert dict(project.query("select status, count(*) from stoker.task_queue group by status")) == {
        "done": 20 - len(started & set(side)),
        "unknown": len(started & set(side)),
    }
    for task in started & set(side):
        assert [attempt for _, one, attempt, _ in project.ledger() if one == task] == [1]


def test_a_poison_task_is_started_max_attempts_times_and_harms_no_other(project: Project) -> None:
    """P1, R09: each way to kill a runner costs its own task three attempts; the 96 others are done."""
    project.write(CONFIG)
    poison = ["SIGKILL", "SIGSEGV", "exit", "memory"]
    ids = project.enqueue("deadly", *poison, *["good"] * 96)
    for _ in range(8):
        assert project.run("fire").returncode == 0
        if project.query("select 1 from stoker.task_queue where status = 'queued'") == []:
            break
    stands = dict(project.query("select id, status from stoker.task_queue"))
    assert [stands[task] for task in ids] == ["failed"] * 4 + ["done"] * 96
    starts = [task for _, task, _, _ in project.ledger()]
    assert [starts.count(task) for task in ids[:4]] == [3] * 4
    failed = dict(project.query("select id, error_kind || ': ' || error from stoker.failed"))
    how = ["SIGKILL", "SIGSEGV", "exit status 7", "SIGABRT"]
    assert [failed[task] for task in ids[:4]] == [f"worker lost: worker lost ({word})" for word in how]
    assert all(row[0] <= 5 + 1 for row in project.query("select respawns from stoker.workers"))


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_worker_lost_on_the_last_attempt_leaves_no_limbo(project: Project, number: signal.Signals) -> None:
    """P1, R10: the task is failed after one pass of hygiene, the note counts it, the old process is ended."""
    project.write(CONFIG)
    (task,) = project.enqueue("last", 1)
    fire = project.start("fire")
    project.wait_for_starts(1)
    (keeper,) = project.keepers()
    fire.kill()
    fire.wait()
    os.kill(keeper, number)
    project.json("sweep")
    wait_until(lambda: not project.tagged(), 10, "processes are left")
    assert project.query("select id, attempts, error_kind from stoker.failed") == [(task, 1, "worker lost")]
    (mode,) = [mode for mode in project.facts(1)["modes"] if mode["mode"] == "last"]
    assert (mode["failed"], mode["left"]) == (1, 0)
    assert project.ledger("end") == []
