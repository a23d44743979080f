"""The database is away while slots fall due: what stands goes on by itself, and one alert and one resolution are told."""

import sys
import time
from itertools import pairwise

from tests.chaos.told import COMMAND, WATCHDOG, causes, told
from tests.end_to_end.project import Project
from tests.postgres import Cluster
from tests.waiting import wait_until

AWAY_SECONDS = 7.0
CONFIG = f"""
connect_timeout = "1s"
[limits]
fires_per_day = 1000
[watchdog]
every = "500ms"
quiet = "1s"
unreachable_after = "2s"
{COMMAND}
[modes.quick]
handler = "jobs:quick"
max_attempts = 1
[[schedules]]
name = "often"
every = "1s"
grace = "30s"
"""
SOON = "from stoker.orchestrator import cli, schedule; schedule._LOOK_AGAIN_SECONDS = 0.5; cli.main()"


def test_many_slots_without_a_database_cost_nothing_and_are_told_once(project: Project, cluster: Cluster) -> None:
    """R43, P7, P8: the next slot fires unaided; no cap, attempt or restart is spent; one alert, one resolution."""
    project.write(CONFIG)
    standing, dog = project.start("run"), project.start(command=WATCHDOG)
    wait_until(lambda: project.query("select from stoker.slots where state = 'ran'") != [], 30, "a slot")
    wait_until(lambda: project.query("select from stoker.heartbeats where component = 'watchdog'") != [], 30, "a look")
    (task,) = project.enqueue("quick", 1)
    wait_until(lambda: len(project.ledger()) == 1, 30, "a task")
    cluster.stop()
    until = time.monotonic() + AWAY_SECONDS
    wait_until(lambda: time.monotonic() > until and told(project) != [], 30, "the alert")
    cluster.start()
    ((back,),) = project.query("select now()")
    (later,) = project.enqueue("quick", 2)
    wait_until(lambda: len(project.ledger()) == 2, 30, "a task of a slot after that")
    wait_until(lambda: len(told(project)) == 2, 30, "the resolution")
    assert (standing.poll(), dog.poll()) == (None, None), "a restart was spent"
    for process in (standing, dog):
        process.terminate()
        process.wait(timeout=30)

    assert causes(project) == [("trigger", "database"), ("resolve", "database")]
    slots = project.query("select due_at, last_due_at, state, reason, fire, decided_at from stoker.slots order by due_at")
    assert all((after[0] - before[1]).total_seconds() == 1 for before, after in pairwise(slots))
    assert sum((slot[1] - slot[0]).total_seconds() + 1 for slot in slots if slot[2] != "ran") >= AWAY_SECONDS - 3
    assert min((decided - back).total_seconds() for *_, decided in slots if decided > back) < 12
    fires = project.query("select fire from stoker.fires order by fire")
    assert [fire for (fire,) in fires] == [slot[4] for slot in slots if slot[2] == "ran"], "the cap pays for fires that ran"
    tasks = project.query("select id, status, attempts from stoker.task_queue order by id")
    assert tasks == [(task, "done", 1), (later, "done", 1)]


def test_a_rare_slot_that_found_no_database_fires_when_it_is_back_not_with_the_next(project: Project, cluster: Cluster) -> None:
    """R04, R43: one late fire, soon after."""
    project.write(CONFIG.replace('every = "1s"', 'every = "12s"'))
    standing = project.start("run", command=(sys.executable, "-P", "-c", SOON))
    seen = "select ceil(extract(epoch from now()) / 12) * 12 - extract(epoch from now()) from stoker.schedules"
    wait_until(lambda: project.query(seen) != [] and 1 < project.query(seen)[0][0] < 5, 30)
    ((due,),) = project.query("select to_timestamp(ceil(extract(epoch from now()) / 12) * 12)")
    cluster.stop()
    wait_until(lambda: "fire ended badly" in (project.folder / "stderr").read_text(), 30, "a fire without a database")
    cluster.start()
    ran = "select decided_at - due_at from stoker.slots where due_at = %s and state = 'ran'"
    wait_until(lambda: project.query(ran, due) != [], 11, "the late fire")
    ((late,),) = project.query(ran, due)
    assert 0 < late.total_seconds() < 11
    standing.terminate()
    assert standing.wait(timeout=20) == 0
