"""Keepers are forked from a template. Whatever becomes of it, workers start, and nothing outlives the fire."""

import os
import signal
import sys
from pathlib import Path

import pytest
from tests.end_to_end.project import Project, is_alive
from tests.waiting import wait_until

CONFIG = """
[limits]
max_pool = 3
fires_per_day = 10
[worker]
lease = "2s"
renew_every = "500ms"
grace = "1s"
[hygiene]
fire_lease = "2s"
[modes.gated]
handler = "jobs:gated"
[modes.quick]
handler = "jobs:quick"
"""

# What becomes of the template, at which point.
FATES = {
    "cannot be used": "module.become_subreaper = lambda: False",
    "killed before it is asked": """
def start(*given):
    template = real(*given)
    template._child.popen.kill()
    return template
Template.start = start
""",
    "killed between two workers": """
def fork(self, tags):
    child = fork_one(self, tags)
    self._child.popen.kill()
    return child
Template.fork = fork
""",
    "frozen for ever": """
def start(*given):
    template = real(*given)
    template._socket.settimeout(0.1)
    os.kill(template._child.pid, signal.SIGSTOP)
    return template
Template.start = start
""",
}
DRIVER = """
import os, signal, sys
from stoker.hygiene import template as module
from stoker.hygiene.template import Template
from stoker.orchestrator import cli
real, fork_one = Template.start, Template.fork
{patch}
cli.main()
"""


def driven(patch: str) -> tuple[str, ...]:
    return (sys.executable, "-P", "-c", DRIVER.format(patch=patch))


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def test_keepers_are_the_orchestrator_s_own_children_and_found_by_their_tags(project: Project) -> None:
    """P6: forked, not started, and no less known for it."""
    project.write(CONFIG)
    project.enqueue("gated", *range(3))
    fire = project.start("fire")
    project.wait_for_starts(3)
    keepers = project.keepers()
    assert [parent(keeper) for keeper in keepers] == [fire.pid] * 3
    assert set(keepers) <= set(project.tagged())
    assert b"stoker.worker.template" in Path(f"/proc/{keepers[0]}/cmdline").read_bytes()
    project.open_gate()
    assert fire.wait(timeout=30) == 0
    assert not project.tagged()


@pytest.mark.parametrize("fate", FATES)
def test_a_fire_whose_template_is_lost_starts_its_workers_all_the_same(project: Project, fate: str) -> None:
    """P1, P6: the longer way is taken; every task is done once, and no process is left."""
    project.write(CONFIG)
    ids = project.enqueue("gated", *range(3))
    fire = project.start("fire", command=driven(FATES[fate]))
    project.wait_for_starts(3)
    project.open_gate()
    assert fire.wait(timeout=30) == 0
    assert dict(project.query("select id, status from stoker.task_queue")) == dict.fromkeys(ids, "done")
    assert len(project.ledger()) == 3
    assert {row[0] for row in project.query("select exit_reason from stoker.workers")} == {"empty"}
    assert not project.tagged()


def test_an_orchestrator_killed_with_a_frozen_template_leaves_nobody(project: Project) -> None:
    """P6: before it had asked for a single worker; the next fire does the work."""
    patch = """
def fork(self, tags):
    os.kill(self._child.pid, signal.SIGSTOP)
    print(self._child.pid, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
Template.fork = fork
"""
    project.write(CONFIG)
    ids = project.enqueue("quick", *range(3))
    fire = project.start("fire", command=driven(patch))
    assert fire.wait(timeout=30) == -signal.SIGKILL
    template = int((project.folder / "stdout").read_text())
    wait_until(lambda: not is_alive(template), 10, "the template is left")
    assert project.json("fire")["hygiene"]["fires_closed"] == [1]
    assert dict(project.query("select id, status from stoker.task_queue")) == dict.fromkeys(ids, "done")


def test_a_forked_keeper_that_is_killed_is_lost_like_any_other(project: Project) -> None:
    """P1: its signal is told, its task is freed and done by the next fire."""
    project.write(CONFIG)
    project.enqueue("gated", 1)
    fire = project.start("fire")
    project.wait_for_starts(1)
    (keeper,) = project.keepers()
    os.kill(keeper, signal.SIGKILL)
    assert fire.wait(timeout=30) == 0
    assert project.query("select exit_status from stoker.workers") == [("SIGKILL",)]
    assert not project.tagged()
    project.open_gate()
    wait_until(lambda: project.json("fire").get("refused") is None and not project.query("select 1 from stoker.ready"), 30)
