"""Limits end what they must, and only that: a slow worker that lives is never robbed."""

import os
import signal
import time

import pytest
from tests.end_to_end.project import Project, is_alive
from tests.waiting import wait_until

JOBS = '''
import re
import socket
import threading


def busy(task):
    """Spins in Python until its time is over."""
    note(task, "start")
    until = time.monotonic() + task.payload
    while time.monotonic() < until:
        pass
    note(task, "end")


def holding(task):
    """One C call that never lets go of the interpreter's lock: a regular expression that backtracks for ever."""
    note(task, "start")
    re.match(r"(a+)+$", "a" * 60 + "b")


def endless(task):
    note(task, "start")
    match task.payload:
        case "socket":
            a, b = socket.socketpair()
            a.recv(1)
        case "loop":
            while True:
                pass
        case "sleep":
            import ctypes
            ctypes.CDLL(None).sleep(600)
        case "deaf":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            while True:
                time.sleep(1)
        case "family":
            daemon = "import os, time; os.fork() and os._exit(0); os.setsid(); os.fork() and os._exit(0); time.sleep(600)"
            subprocess.Popen([sys.executable, "-c", daemon])
            time.sleep(600)
'''

SLOW = """
[limits]
max_pool = 1
fires_per_day = "none"
wall_clock = "{wall_clock}"
[worker]
lease = "1s"
renew_every = "300ms"
grace = "500ms"
[hygiene]
fire_lease = "2s"
[modes.busy]
handler = "jobs:busy"
max_attempts = 1
timeout = "1m"
[modes.holding]
handler = "jobs:holding"
max_attempts = 1
timeout = "1m"
"""

ENDLESS = """
[limits]
max_pool = 2
[worker]
grace = "500ms"
[modes.endless]
handler = "jobs:endless"
max_attempts = 1
timeout = "700ms"
[modes.shell]
command = ["/bin/sh", "-c", "echo started; trap '' TERM; while :; do sleep 1; done"]
max_attempts = 1
timeout = "700ms"
"""


def test_a_busy_task_that_outlasts_its_lease_five_times_is_not_released(project: Project) -> None:
    """R02: three sweeps meanwhile free nothing, and the task's effect happens once."""
    project.write(SLOW.format(wall_clock="1m"), JOBS)
    (task,) = project.enqueue("busy", 5)
    fire = project.start("fire")
    project.wait_for_starts(1)
    for _ in range(3):
        swept = project.json("sweep")
        assert (swept["workers_released"], swept["fires_closed"]) == ([], [])
    assert fire.wait(timeout=30) == 0
    assert project.ledger("end")[0][:3] == ("busy", task, 1)
    assert len(project.ledger("end")) == 1
    assert project.query("select status, attempts from stoker.task_queue") == [("done", 1)]


def test_a_call_that_holds_the_interpreter_is_ended_by_the_wall_clock_not_by_hygiene(project: Project) -> None:
    """R02: the lease is renewed all the while, and what ends the task is named."""
    project.write(SLOW.format(wall_clock="4s"), JOBS)
    project.enqueue("holding", 0)
    fire = project.start("fire")
    project.wait_for_starts(1)
    until = time.monotonic() + 3
    while time.monotonic() < until:
        assert project.json("sweep")["workers_released"] == []
    assert fire.wait(timeout=30) == 0
    assert project.query("select error_kind from stoker.failed") == [("wall clock",)]
    assert project.query("select exit_reason from stoker.workers") == [("clock",)]


def test_a_task_over_its_timeout_is_ended_with_everything_under_it(project: Project) -> None:
    """P6, R22: a blocked socket, a C sleep, a loop, a deaf process, a daemonised grandchild: TERM, grace, KILL."""
    project.write(ENDLESS, JOBS)
    ids = project.enqueue("endless", "socket", "loop", "sleep", "deaf", "family")
    ids += project.enqueue("shell", 0)
    assert project.run("fire").returncode == 0
    stands = project.query("select id, error_kind from stoker.failed order by id")
    assert stands == [(task, "timeout") for task in ids]
    assert project.tagged() == []
    assert {row[0] for row in project.query("select exit_reason from stoker.workers")} <= {"empty", "respawns", "cap"}
    assert project.run("logs", str(ids[-1])).stdout == "--- attempt 1\nstarted\n"


def test_a_task_cap_bounds_what_a_worker_takes_and_the_rest_waits(project: Project) -> None:
    """P5: two workers with a cap of three take six of ten; they are not replaced."""
    config = '[limits]\nmax_pool = 2\ntask_cap = 3\n[modes.quick]\nhandler = "jobs:quick"\n'
    project.write(config)
    project.enqueue("quick", *range(10))
    facts = project.json("fire")
    (mode,) = facts["modes"]
    assert (mode["done"], mode["left"], facts["workers"]["launched"]) == (6, 4, 2)
    assert facts["workers"]["exits"] == {"cap": 2}
    assert project.json("plan")["can_take"] == 6


@pytest.mark.parametrize("times", [1, 2])
def test_sigterm_lets_the_running_task_end_and_a_second_one_does_not(project: Project, times: int) -> None:
    """R23: once: it is settled, renewed until then; twice: ended, charged; either way the unstarted go back free."""
    project.write(SLOW.format(wall_clock="1m").replace('grace = "500ms"', 'grace = "20s"'), JOBS)
    ids = project.enqueue("busy", 3, 3, 3)
    fire = project.start("fire")
    project.wait_for_starts(1)
    for n in range(times):
        fire.send_signal(signal.SIGTERM)
        if n + 1 < times:
            time.sleep(0.3)  # two signals at once would be one, and nothing tells outside that the first was heard
    assert fire.wait(timeout=30) == 143
    stands = dict(project.query("select id, status || ' ' || attempts from stoker.task_queue"))
    assert stands[ids[0]] == ("done 1" if times == 1 else "failed 1")
    assert {stands[task] for task in ids[1:]} == {"queued 0"}
    facts = project.facts()
    assert facts["ended"] == "interrupted"
    assert facts["workers"]["lost"] == []
    assert project.tagged() == []


def test_a_frozen_keeper_does_not_leave_its_runner_running_for_ever(project: Project) -> None:
    """P3: the runner's own timer ends it, so that what was frozen is certainly over when its time has run out."""
    config = ENDLESS.replace('timeout = "700ms"', 'timeout = "500ms"')
    project.write(config, JOBS)
    project.enqueue("endless", "loop")
    project.start("fire")
    project.wait_for_starts(1)
    (_, _, _, runner), *_ = project.ledger()
    for keeper in project.keepers():
        os.kill(keeper, signal.SIGSTOP)
    wait_until(lambda: not is_alive(runner), 15, "the runner is still alive")


def test_a_fire_that_is_told_to_stop_at_any_moment_reaches_its_note(project: Project) -> None:
    """P4, R23: also between its admission and its first worker; nothing is left for hygiene, and nothing is lost."""
    project.write('[limits]\nfires_per_day = "none"\n[modes.quick]\nhandler = "jobs:quick"\n')
    for number in range(24):
        project.enqueue("quick", *range(3))
        fire = project.start("fire")
        time.sleep(0.06 + 0.008 * number)
        fire.terminate()
        assert fire.wait(timeout=20) in {-signal.SIGTERM, 128 + signal.SIGTERM, 0}
        assert project.query("select count(*) from stoker.fires where state in ('open', 'closing')") == [(0,)]
    assert project.run("fire").returncode == 0
    assert project.query("select coalesce(sum(hi - lo + 1), 0)::int from stoker.outcomes") == [(72,)]
    ((ran,),) = project.query("select count(*) from stoker.fires where state = 'closed'")
    assert project.query("select count(*) from stoker.notes") == [(ran,)]
