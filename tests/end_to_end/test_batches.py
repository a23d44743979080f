"""Batches: what one worker holds is in nobody's way, and what dies with it is charged only where it ran."""

import os
import signal

from tests.end_to_end.project import Project
from tests.waiting import wait_until

JOBS = '''
def mixed(task):
    """Waits for the gate, sleeps, or does nothing, as the payload says."""
    match task.payload:
        case "gate":
            gated(task)
        case float():
            note(task, "start")
            time.sleep(task.payload)
        case "known":
            pass
'''

CONFIG = """
[limits]
max_pool = 1
task_cap = "none"
fires_per_day = "none"
[worker]
grace = "2s"
[modes.mixed]
handler = "jobs:mixed"
"""


KNOWN = 40


def measured(project: Project, config: str = CONFIG, payload: object = "known") -> None:
    """A project whose mode is measured, so that a worker begins with a batch that fits."""
    project.write(config, JOBS)
    project.enqueue("mixed", *[payload] * KNOWN)
    assert project.run("fire").returncode == 0


def done(project: Project) -> int:
    ((count,),) = project.query("select coalesce(sum(hi - lo + 1), 0)::int from stoker.outcomes")
    return int(count) - KNOWN


def test_nothing_waits_behind_a_long_task_while_another_worker_is_at_hand(project: Project) -> None:
    """P1: what stands behind a long task, also what was claimed ahead, goes back unstarted, and another worker does it."""
    measured(project)
    project.enqueue("mixed", "gate", *["known"] * 1499)
    fire = project.start("fire")
    project.wait_for_starts(1)
    wait_until(lambda: project.query("select sum(hi - lo + 1)::int from stoker.ready") == [(1499,)], 20, "not given back")
    assert project.run("fire", "--lane", "other").returncode == 0
    assert done(project) == 1499
    assert project.ledger("end") == []
    project.open_gate()
    assert fire.wait(timeout=30) == 0
    assert done(project) == 1500
    assert project.query("select count(*) from stoker.attempts") == [(0,)]
    assert project.query("select sum(done)::int from stoker.workers") == [(1500 + KNOWN,)]


def test_what_a_task_of_half_a_second_let_go_is_done_all_the_same(project: Project) -> None:
    """P1: taken back from the runner at the moment when it would have started it, or not: every task runs once."""
    measured(project)
    project.enqueue("mixed", *[0.51, 0.52, 0.53, 0.54, 0.55, 0.56, 0.57, 0.58, 0.59], *[0.0] * 30)
    assert project.run("fire").returncode == 0
    assert len(project.ledger("start")) == len(set(project.ledger("start"))) == 39
    assert done(project) == 39


def test_what_is_finished_is_settled_beside_a_slow_neighbour(project: Project) -> None:
    """A batch is settled in parts: what is over does not wait for what is not."""
    measured(project, CONFIG)
    project.enqueue("mixed", *["known"] * 99, "gate", *["known"] * 5)
    fire = project.start("fire")
    wait_until(lambda: done(project) == 99, 20, "the finished are not settled")
    wait_until(lambda: project.query("select sum(hi - lo + 1)::int from stoker.ready") == [(5,)], 20, "the rest is not free")
    project.open_gate()
    assert fire.wait(timeout=30) == 0
    assert done(project) == 105


def test_a_keeper_killed_while_it_has_claimed_ahead_loses_nothing_and_charges_nothing_unstarted(project: Project) -> None:
    """P1, R01: both batches come back; only what ran is suspect, and everything is done in the end."""
    measured(project, payload=0.02)
    project.enqueue("mixed", *[0.02] * 200)
    fire = project.start("fire")
    wait_until(
        lambda: project.query("select count(*) from stoker.claims where taken > 1") == [(2,)], 20, "it never claimed ahead"
    )
    (keeper,) = project.keepers()
    os.kill(keeper, signal.SIGKILL)
    assert fire.wait(timeout=30) == 0
    project.json("sweep")
    started = {task for _, task, _, _ in project.ledger()}
    assert len(started) < KNOWN + 200
    assert project.query("select count(*) from stoker.claims") == [(0,)]
    spent = dict(project.query("select id, attempts from stoker.task_queue where status = 'queued'"))
    assert len(spent) + done(project) == 200
    assert all(attempts == 0 for task, attempts in spent.items() if task not in started)
    while project.query("select 1 from stoker.ready limit 1"):
        assert project.run("fire").returncode == 0
    assert done(project) == 200
