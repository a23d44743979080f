"""A lane outlives its holder: a fire that was killed holds nothing; a session that forgot its transaction is named."""

import os
import re
import signal

import psycopg
import pytest
from tests.chaos.told import COMMAND, WATCHDOG, causes, told
from tests.end_to_end.project import Project
from tests.waiting import wait_until

CONFIG = f"""
lock_timeout = "200ms"
statement_timeout = "1s"
[limits]
fires_per_day = "none"
[worker]
grace = "1s"
[watchdog]
every = "1s"
quiet = "1s"
{COMMAND}
[modes.gated]
handler = "jobs:gated"
[[schedules]]
name = "often"
every = "2s"
grace = "3s"
"""


def test_the_slot_after_a_fire_was_killed_runs(project: Project) -> None:
    """R40: kill -9 of the fire that has the lane: it is closed as reaped, and the next due time fires, by nobody's doing."""
    project.write(CONFIG)
    project.enqueue("gated", 1)
    standing = project.start("run")
    project.wait_for_starts(1)
    ((fire, pid),) = project.query("select fire, (owner->>'pid')::int from stoker.fires where state = 'open'")
    ((before,),) = project.query("select now()")
    os.kill(pid, signal.SIGKILL)
    ran = "select due_at - %s from stoker.slots where state = 'ran' and due_at > %s order by due_at limit 1"
    wait_until(lambda: project.query(ran, before, before) != [], 20, "the next slot")
    ((later,),) = project.query(ran, before, before)
    assert later.total_seconds() <= 6
    assert project.query("select facts->>'ended' from stoker.notes where fire = %s", fire) == [("reaped",)]
    project.open_gate()
    wait_until(lambda: project.query("select distinct status from stoker.task_queue") == [("done",)], 20, "the task")
    standing.terminate()
    assert standing.wait(timeout=20) == 0


@pytest.mark.parametrize("table", ["lanes", "schedules"])
def test_a_session_that_holds_the_lane_is_named_and_the_watchdog_tells(project: Project, table: str) -> None:
    """R40: `stoker fire` ends in time with who, since when and what to do; it is told after the grace; then it goes on."""
    project.write(CONFIG)
    assert [project.run("fire", *words).returncode for words in ((), ("--due",))] == [0, 0]
    with psycopg.connect(project.url, application_name="forgotten psql") as holder:
        holder.execute(f"select * from stoker.{table} for update".encode())
        pid = holder.info.backend_pid
        standing, dog = project.start("run"), project.start(command=WATCHDOG)
        wait_until(lambda: told(project) != [], 20, "a page")
        assert causes(project) == [("trigger", "slot often")]
        held = project.run("fire", "--due")
        assert held.returncode == 75
        words = rf"held by session {pid} \(forgotten psql\) since \d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d UTC, idle in transaction"
        assert re.search(words, held.stderr), held.stderr
        assert f"select pg_terminate_backend({pid})" in held.stderr
        assert standing.poll() is None
        assert dog.poll() is None
    wait_until(lambda: project.query("select from stoker.slots where state = 'ran'") != [], 20, "the next slot")
    wait_until(lambda: project.query("select from stoker.incidents where resolve_paged") != [], 20, "the resolution")
    standing.terminate()
    assert standing.wait(timeout=20) == 0
    assert causes(project) == [("trigger", "slot often"), ("resolve", "slot often")]
