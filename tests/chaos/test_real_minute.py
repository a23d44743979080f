"""A slot every two seconds, in real time, while the scheduler, the database and the watchdog are killed in turn."""

import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import pytest
from tests.chaos.told import COMMAND, WATCHDOG, told
from tests.end_to_end.project import Project
from tests.postgres import Cluster
from tests.waiting import wait_until

EACH_SECONDS, RESTART_SECONDS = 1.6, 4.1
CONFIG = f"""
[limits]
fires_per_day = "none"
[watchdog]
every = "1s"
quiet = "2s"
{COMMAND}
[modes.quick]
handler = "jobs:quick"
[[schedules]]
name = "often"
every = "2s"
grace = "20s"
"""


@dataclass
class Supervisor:
    """Starts what stands, and again when it was killed."""

    project: Project
    cluster: Cluster
    scheduler: subprocess.Popen[bytes] | None = None
    watchdog: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self.scheduler = self.project.start("run")
        self.watchdog = self.project.start(command=WATCHDOG)

    def kill_scheduler(self) -> None:
        assert self.scheduler is not None
        self.scheduler.kill()
        assert self.scheduler.wait(timeout=10) == -signal.SIGKILL
        _rest(RESTART_SECONDS)  # so that more than one due time goes by
        self.scheduler = self.project.start("run")

    def kill_database(self) -> None:
        self.cluster.kill()
        self.cluster.start()

    def kill_watchdog(self) -> None:
        assert self.watchdog is not None
        self.watchdog.kill()
        assert self.watchdog.wait(timeout=10) == -signal.SIGKILL
        self.watchdog = self.project.start(command=WATCHDOG)

    def stop(self) -> None:
        for process in (self.scheduler, self.watchdog):
            assert process is not None
            assert process.poll() is None, "it ended by itself"
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=30)


@pytest.mark.parametrize("rounds", [2, pytest.param(8, marks=pytest.mark.soak)])
def test_every_due_time_is_accounted_for_whoever_is_killed(project: Project, cluster: Cluster, rounds: int) -> None:
    """P4, P5, P7, P8: each slot ran, was skipped for a reason or missed; slot and fire agree; no two at once; no false page."""
    project.write(CONFIG)
    supervisor = Supervisor(project, cluster)
    supervisor.start()
    wait_until(lambda: project.query("select from stoker.slots where state = 'ran'") != [], 30, "the first slot")
    tasks: list[int] = []
    blows: list[Callable[[], None]] = [supervisor.kill_scheduler, supervisor.kill_database, supervisor.kill_watchdog]
    for blow in blows * rounds:
        tasks += project.enqueue("quick", *range(3))
        _rest(EACH_SECONDS)
        blow()
    ((last,),) = project.query("select max(last_due_at) from stoker.slots")
    wait_until(
        lambda: project.query("select from stoker.slots where state = 'ran' and due_at > %s offset 1", last) != [],
        40,
        "slots after the last blow",
    )
    states = "select distinct status from stoker.task_queue"
    wait_until(lambda: project.query(states) == [("done",)], 40, "the tasks")
    supervisor.stop()
    project.run("sweep")

    slots = project.query("select due_at, last_due_at, state, reason, fire from stoker.slots order by due_at")
    ((since,),) = project.query("select since from stoker.schedules")
    assert 0 < (slots[0][0] - since).total_seconds() <= 2, "from the first due time on"
    assert all((later[0] - earlier[1]).total_seconds() == 2 for earlier, later in pairwise(slots)), "none left out, none twice"
    assert {"ran", "missed"} <= {state for _, _, state, _, _ in slots} <= {"ran", "skipped", "missed"}
    assert all(reason for _, _, state, reason, _ in slots if state != "ran")

    fires = project.query("select fire, state, opened_at, closed_at from stoker.fires where state <> 'refused' order by fire")
    assert [fire for *_, fire in slots if fire] == [fire for fire, *_ in fires], "slot and fire agree"
    assert {state for _, state, _, _ in fires} == {"closed"}
    assert project.query("select count(*) from stoker.notes") == [(len(fires),)]
    assert all(earlier[3] <= later[2] for earlier, later in pairwise(fires)), "no two at once"
    assert {task for _, task, _, _ in project.ledger()} == set(tasks)
    assert project.query("select from stoker.heartbeats where component = 'watchdog' and at > now() - interval '30 s'") != []
    assert told(project) == []
    assert project.tagged() == []


def _rest(seconds: float) -> None:
    until = time.monotonic() + seconds
    wait_until(lambda: time.monotonic() >= until, seconds + 1)
