"""Fires by the clock: from cron, and from the process that stands by."""

import os
import signal
import subprocess
import sys
import time
from itertools import pairwise

from tests.end_to_end.project import Project
from tests.postgres import Cluster
from tests.waiting import wait_until

CONFIG = """
[limits]
fires_per_day = "none"
[modes.quick]
handler = "jobs:quick"
[[schedules]]
name = "often"
every = "1s"
"""


def states(project: Project) -> list[str]:
    return [state for (state,) in project.query("select state from stoker.slots order by due_at")]


def test_cron_fires_what_is_due_and_says_one_line_when_nothing_is(project: Project) -> None:
    """R08, P7: the first look registers; then a slot is due; slots show it with its fire."""
    project.write(CONFIG)
    first = project.run("fire", "--due")
    assert (first.returncode, first.stdout) == (0, "")
    assert len([line for line in first.stderr.splitlines() if "nothing is due" in line]) == 1
    time.sleep(1.1)
    project.enqueue("quick", 1)
    assert project.run("fire", "--schedule", "often").returncode == 0
    shown = project.json("slots", "--next", "2")
    assert [row["state"] for row in shown[:3]] == ["next", "next", "ran"]
    assert project.facts(shown[2]["fire"])["reason"] == "schedule often"
    assert len(project.ledger()) == 1


def test_looking_when_nothing_is_due_starts_no_launcher_and_sweeps(project: Project) -> None:
    """Cron looks every minute: what a sweep mends is mended all the same."""
    project.write(CONFIG.replace("1s", "1h"))
    project.run("fire", "--due")
    project.json("enqueue", "quick", "1", "--delay", "1h")
    project.query("update stoker.later set available_at = now() returning span")
    looked = project.run("fire", "--due", PYTHONPROFILEIMPORTTIME="1")
    assert "nothing is due" in looked.stderr
    assert "stoker.orchestrator.sweeping" in looked.stderr
    assert "stoker.worker.keeper" not in looked.stderr, "a template imported it"
    assert project.query("select (select count(*) from stoker.ready), (select count(*) from stoker.fires)") == [(1, 0)]


def test_a_schedule_tightens_the_limits_and_names_its_modes(project: Project) -> None:
    """And cannot loosen them."""
    project.write(CONFIG + 'max_pool = 1\nmodes = ["quick"]\nlane = "side"\n')
    project.run("fire", "--due")
    time.sleep(1.1)
    project.enqueue("quick", *range(60))
    assert project.run("fire", "--due").returncode == 0
    ((lane, interlocks),) = project.query("select lane, interlocks from stoker.fires")
    assert (lane, interlocks["max_pool"]) == ("side", 1)
    project.write(CONFIG + "max_pool = 100\n")
    refused = project.run("fire", "--due")
    assert refused.returncode == 2
    assert "schedules.0.max_pool: 100 is looser than [limits] max_pool = 12" in refused.stderr


def test_the_clock_fires_every_slot_until_it_is_told_to_stop(project: Project) -> None:
    """R26, P7: a slot a second; a fire that runs at the end is finished; nothing is left."""
    project.write(CONFIG)
    clock = project.start("schedule")
    wait_until(lambda: states(project).count("ran") >= 3, 30, "three slots")
    project.enqueue("quick", 1)
    wait_until(lambda: len(project.ledger()) == 1, 30, "a task")
    clock.send_signal(signal.SIGTERM)
    assert clock.wait(timeout=20) == 0
    assert set(states(project)) <= {"ran", "missed", "skipped"}
    assert project.query("select count(*) from stoker.fires where state <> 'closed'") == [(0,)]
    assert project.tagged() == []


def test_a_clock_that_slept_makes_good_the_latest_slot_alone(project: Project) -> None:
    """R07, R75: stopped for four seconds, one late fire, the rest is listed as missed, and it goes on."""
    project.write(CONFIG)
    clock = project.start("schedule")
    wait_until(lambda: states(project).count("ran") >= 1, 30, "a slot")
    os.kill(clock.pid, signal.SIGSTOP)
    time.sleep(4)
    os.kill(clock.pid, signal.SIGCONT)
    wait_until(lambda: "missed" in states(project) and states(project)[-1] == "ran", 20, "the late fire")
    before = states(project).count("ran")
    wait_until(lambda: states(project).count("ran") > before, 20, "the next slot")
    rows = project.query("select due_at, last_due_at from stoker.slots order by due_at")
    assert all((later[0] - earlier[1]).total_seconds() == 1 for earlier, later in pairwise(rows))
    clock.terminate()
    assert clock.wait(timeout=20) == 0


def test_two_clocks_are_as_good_as_one(project: Project) -> None:
    """R08: every slot has one row, one fire; no refusal."""
    project.write(CONFIG)
    clocks = [project.start("schedule") for _ in range(2)]
    wait_until(lambda: states(project).count("ran") >= 3, 30, "three slots")
    for clock in clocks:
        clock.terminate()
    assert [clock.wait(timeout=20) for clock in clocks] == [0, 0]
    rows = project.query("select count(*), count(distinct fire) from stoker.slots where state = 'ran'")
    assert rows[0][0] == rows[0][1]


def test_a_closed_gate_stops_every_start_and_nothing_else(project: Project) -> None:
    """P8: fires are refused with the reason, due slots skipped with it, running workers stop; enqueueing goes on."""
    project.write(CONFIG + '[modes.gated]\nhandler = "jobs:gated"\n')
    project.enqueue("gated", *range(3))
    fire = project.start("fire")
    project.wait_for_starts(1)
    assert project.run("gate", "close", "--reason", "repairs", "--by", "ann").returncode == 0
    project.open_gate()
    assert fire.wait(timeout=30) == 0
    project.enqueue("quick", 1)
    started = len(project.ledger())
    refused = project.run("fire", "--exit-code", "--lane", "other")
    assert refused.returncode == 11
    assert "the gate is closed: repairs (ann)" in refused.stdout
    project.run("fire", "--due")
    time.sleep(1.1)
    assert project.run("fire", "--due", "--exit-code").returncode == 11
    skipped = project.query("select reason from stoker.slots where state = 'skipped'")
    assert skipped == [("the gate is closed: repairs (ann)",)]
    assert "repairs (ann" in project.run("gate", "show").stdout
    assert len(project.ledger()) == started < 4
    project.run("gate", "open")
    assert project.run("fire").returncode == 0
    assert len(project.ledger()) == 4
    assert project.query("select actor, action from stoker.events where action like 'gate%' limit 1") == [
        ("ann", "gate closed")
    ]


def test_a_gate_that_was_forgotten_is_named_with_how_to_open_it(project: Project) -> None:
    """By status and ready, from watchdog.gate_reminder on; before, it is only shown."""
    project.write(CONFIG + '[watchdog]\ngate_reminder = "2d"\n')
    project.run("gate", "close", "--reason", "repairs", "--by", "ann")
    assert project.json("status")["gate_reminder"] is None
    project.query("update stoker.paused set since = now() - interval '3 days 4 hours' where mode = '*' returning 1")
    words = "the gate has been closed for 3d by ann: repairs; to open: stoker gate open"
    assert project.json("status")["gate_reminder"] == words
    assert project.run("status").stdout.splitlines()[0] == words
    assert f"  {words}" in project.run("ready").stdout.splitlines()
    project.run("gate", "open")
    assert "the gate" not in project.run("status").stdout + project.run("ready").stdout


def test_what_stands_sweeps_fires_beats_and_ends_when_it_is_told(project: Project) -> None:
    """R01, R24: a worker that was killed, and the fire that died with it, are made good without anybody's doing."""
    project.write(CONFIG + '[modes.gated]\nhandler = "jobs:gated"\n')
    project.enqueue("gated", 1)
    fire = project.start("fire")
    project.wait_for_starts(1)
    for pid in (fire.pid, *project.keepers()):
        os.kill(pid, signal.SIGKILL)
    project.open_gate()
    standing = project.start("run")
    wait_until(lambda: "done" in [row["status"] for row in project.json("tasks", "ls")], 40, "the task to be done")
    wait_until(lambda: project.query("select count(*) from stoker.heartbeats where component = 'sweep'") == [(1,)], 10, "beat")
    standing.terminate()
    assert standing.wait(timeout=20) == 0
    assert project.tagged() == []


def test_a_paused_schedule_skips_what_is_due_and_says_why_until_it_is_resumed(project: Project) -> None:
    """Everything that shows a schedule shows it; nothing is caught up afterwards; people's moves are events."""
    project.write(CONFIG)
    assert project.run("slots", "pause", "often", "--reason", "the supplier is closed", "--by", "ann").returncode == 0
    assert "paused already" in project.run("slots", "pause", "often", "--reason", "again").stdout
    time.sleep(1.1)
    done = project.run("fire", "--due", "--exit-code")
    assert (done.returncode, done.stdout) == (11, "slot skipped: paused by ann: the supplier is closed\n")
    rows = project.query("select distinct state, reason from stoker.slots where state = 'skipped'")
    assert rows == [("skipped", "paused by ann: the supplier is closed")]
    assert project.query("select count(*) from stoker.fires") == [(0,)]
    assert {row["reason"][:13] for row in project.json("slots", "--next", "1")[:1]} == {"paused by ann"}
    assert project.json("status")["paused_schedules"].keys() == {"often"}
    assert "schedule often is paused by ann since " in project.run("status").stdout
    assert any("schedule often is paused" in text for text in project.json("ready")["remarks"])
    assert "is not paused any more" in project.run("slots", "resume", "often", "--by", "bob").stdout
    assert "often is not paused; paused are: none" in project.run("slots", "resume", "often").stdout
    time.sleep(1.1)
    assert project.run("fire", "--due", "--exit-code").returncode == 0
    assert states(project)[-1] == "ran"
    events = project.query("select actor, action, detail->>'schedule' from stoker.events order by event")
    assert events == [("ann", "pause schedule", "often"), ("bob", "resume schedule", "often")]


def test_only_a_schedule_that_is_configured_can_be_paused_and_only_with_a_reason(project: Project) -> None:
    """A misspelt name pauses nothing."""
    project.write(CONFIG)
    wrong = project.run("slots", "pause", "oftn", "--reason", "x")
    assert (wrong.returncode, "no schedule 'oftn'; configured: often" in wrong.stderr) == (2, True)
    assert project.run("slots", "pause", "often", "--reason", " ").returncode == 2
    assert project.run("slots", "pause", "often").returncode == 2


def test_a_schedule_that_was_taken_out_is_forgotten_and_not_waited_for(project: Project) -> None:
    """P8: what it was stays; one that is configured is not forgotten by mistake."""
    project.write(CONFIG.replace("1s", "1h"))
    project.run("fire", "--due")
    project.query("update stoker.schedules set since = since - interval '3 h' returning schedule")
    kept = project.run("slots", "forget", "often")
    assert (kept.returncode, "often is configured: take it out of" in kept.stderr) == (2, True)
    project.write(CONFIG[: CONFIG.index("[[schedules]]")])
    watchdog = (sys.executable, "-P", "-m", "stoker.watchdog.cli", "--once")
    looked = subprocess.run(watchdog, cwd=project.folder, capture_output=True, text=True, timeout=60, check=False)
    assert "If it was taken out of config.toml: stoker slots forget often" in looked.stdout
    wrong = project.run("slots", "forget", "oftn")
    assert (wrong.returncode, "known and not configured: often" in wrong.stderr) == (2, True)
    assert project.run("slots", "forget", "often", "--reason", "gone", "--by", "ann").returncode == 0
    looked = subprocess.run(watchdog, cwd=project.folder, capture_output=True, text=True, timeout=60, check=False)
    assert looked.stdout == "all is well\n"
    events = project.query("select actor, action, reason, detail->>'schedule' from stoker.events")
    assert events == [("ann", "forget schedule", "gone", "often")]


def test_what_stands_outlives_a_database_that_is_stopped_and_started(project: Project, cluster: Cluster) -> None:
    """R43: the next slot fires unaided, every due time is accounted for, and the daily cap pays for no fire that never was."""
    project.write(CONFIG.replace('fires_per_day = "none"', "fires_per_day = 1000"))
    standing = project.start("run")
    wait_until(lambda: states(project).count("ran") >= 2, 30, "slots")
    cluster.stop()
    try:
        wait_until(lambda: "database unreachable" in (project.folder / "stderr").read_text(), 60, "the loss to be noticed")
        assert standing.poll() is None
    finally:
        cluster.start()
    before = states(project).count("ran")
    wait_until(lambda: states(project).count("ran") >= before + 3, 60, "the next slots")
    assert standing.poll() is None
    project.enqueue("quick", 1)
    wait_until(lambda: len(project.ledger()) == 1, 30, "a task")
    standing.terminate()
    assert standing.wait(timeout=30) == 0
    rows = project.query("select due_at, last_due_at, state, reason, fire from stoker.slots order by due_at")
    assert all((later[0] - earlier[1]).total_seconds() == 1 for earlier, later in pairwise(rows))
    missed = [row for row in rows if row[2] == "missed"]
    assert {row[3] for row in missed} == {"a later one was made good"}
    assert sum((row[1] - row[0]).total_seconds() + 1 for row in missed) >= 2
    fires = project.query("select fire, state from stoker.fires order by fire")
    assert {state for _, state in fires} == {"closed"}
    assert [fire for fire, _ in fires] == [row[4] for row in rows if row[2] == "ran"]
    assert project.tagged() == []
