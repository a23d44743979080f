"""The database goes away in the middle of a fire, and comes back."""

import signal
import threading
import time

import pytest
from tests.end_to_end.project import Project
from tests.postgres import Cluster

CONFIG = """
[limits]
max_pool = 2
fires_per_day = "none"
task_cap = "none"
[worker]
batch_time = "20ms"
[modes.little]
handler = "jobs:little"
[modes.gated]
handler = "jobs:gated"
"""
JOBS = """
def little(task):
    note(task, "start")
    time.sleep(0.001)
"""


@pytest.mark.parametrize("pauses", [(0.3,), (0.1, 0.4, 0.7)])
def test_a_fire_outlives_restarts_of_the_database(project: Project, cluster: Cluster, pauses: tuple[float, ...]) -> None:
    """P1, P2, R15: claims and settlements whose reply was lost are asked after, not repeated; every task is settled once."""
    project.write(CONFIG, JOBS)
    ids = project.enqueue("little", *range(3000))
    fire = project.start("fire")
    project.wait_for_starts(100)
    for pause in pauses:
        threading.Event().wait(pause)
        cluster.kill()
        cluster.start()
    assert fire.wait(timeout=90) == 0
    for _ in range(3):
        if project.facts()["modes"][1]["left"]:
            assert project.run("fire").returncode == 0
    assert dict(project.query("select status, count(*) from stoker.task_queue group by status")) == {"done": len(ids)}
    assert project.query("select sum(hi - lo + 1)::bigint, count(*) filter (where hi < lo) from stoker.outcomes") == [
        (len(ids), 0)
    ]
    notes = [facts for (facts,) in project.query("select facts from stoker.notes")]
    assert sum(mode["done"] for facts in notes for mode in facts["modes"]) == len(ids)
    assert project.query("select count(*) from stoker.claims") == [(0,)]


def test_a_task_runs_on_while_the_database_is_away_and_is_settled_after(project: Project, cluster: Cluster) -> None:
    """R15: no attempt is spent, no worker is lost, and the result is kept until it can be written."""
    project.write(CONFIG)
    (task,) = project.enqueue("gated", 1)
    fire = project.start("fire")
    project.wait_for_starts(1)
    cluster.stop()
    project.open_gate()
    deadline = time.monotonic() + 5
    while not project.ledger("end"):
        assert time.monotonic() < deadline
    cluster.start()
    assert fire.wait(timeout=60) == 0
    assert project.query("select id, status, attempts from stoker.task_queue") == [(task, "done", 1)]
    assert project.facts()["workers"]["lost"] == []
    assert fire.returncode != -signal.SIGKILL
