"""The orchestrator dies, or freezes, at any point: the next fire closes its fire with exactly one note."""

import os
import signal
import sys

import pytest
from tests.end_to_end.project import Project, is_alive
from tests.waiting import wait_until

CONFIG = """
[limits]
max_pool = 2
fires_per_day = 10
[worker]
lease = "2s"
renew_every = "500ms"
grace = "1s"
[hygiene]
fire_lease = "2s"
[modes.gated]
handler = "jobs:gated"
max_attempts = 3
[modes.quick]
handler = "jobs:quick"
"""

# Where the orchestrator kills itself: the function that is reached next, and how it is wrapped.
POINTS = {
    "after admission": "fire.Fire._decide = die",
    "after planning": "fire.Fire._muster = die",
    "in closing": "close._empty = die",
    "before the last commit": "note = close.gather; close.gather = lambda *a: (note(*a), die())",
}
DRIVER = """
import os, signal, sys
from stoker.hygiene import close
from stoker.orchestrator import cli, fire
def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)
{patch}
cli.main()
"""


@pytest.mark.parametrize("point", [*POINTS, "mid-drain"])
def test_a_fire_whose_orchestrator_was_killed_is_closed_once_by_the_next(project: Project, point: str) -> None:
    """P1, P4, P6, R24: one note, marked as reaped; its workers are gone; its unit of the daily cap is used once."""
    project.write(CONFIG)
    mode = "gated" if point == "mid-drain" else "quick"
    ids = project.enqueue(mode, *range(6))
    if point == "mid-drain":
        fire = project.start("fire")
        project.wait_for_starts(2)
        fire.kill()
        project.open_gate()
    else:
        fire = project.start("fire", command=(sys.executable, "-P", "-c", DRIVER.format(patch=POINTS[point])))
    assert fire.wait(timeout=30) == -signal.SIGKILL
    assert project.query("select fire from stoker.notes") == []

    done = project.json("fire")
    assert done["fire"] == 2
    assert done["hygiene"]["fires_closed"] == [1]
    assert project.query("select fire, facts->>'ended' from stoker.notes order by fire") == [
        (1, "reaped"),
        (2, "normal"),
    ]
    assert project.query("select count(*) from stoker.fires where state <> 'refused'") == [(2,)]
    assert dict(project.query("select id, status from stoker.task_queue")) == dict.fromkeys(ids, "done")
    assert _sums(project) == project.query("select sum(hi - lo + 1)::bigint from stoker.outcomes")[0][0] == len(ids)
    wait_until(lambda: not project.tagged(), 10, "processes are left")


def test_keepers_end_by_themselves_when_their_orchestrator_was_killed(project: Project) -> None:
    """P6: they claim no more, finish or end what runs within their grace, and leave nothing behind."""
    project.write(CONFIG)
    project.enqueue("gated", *range(6))
    fire = project.start("fire")
    project.wait_for_starts(2)
    fire.kill()
    wait_until(lambda: not project.tagged(), 15, "processes are left after the grace")
    assert project.query("select count(*) from stoker.claims") == [(0,)]
    assert {row[0] for row in project.query("select exit_reason from stoker.workers")} == {"orphaned"}


def test_a_frozen_orchestrator_that_wakes_after_its_fire_was_closed_changes_nothing(project: Project) -> None:
    """P2, P4: another fire closes its fire while it is stopped; awake, it writes nothing and leaves no process."""
    project.write(CONFIG)
    project.enqueue("gated", *range(4))
    fire = project.start("fire")
    project.wait_for_starts(2)
    os.kill(fire.pid, signal.SIGSTOP)
    wait_until(lambda: project.query("select 1 from stoker.fires where lease_until < now()") != [], 10)
    project.open_gate()
    done = project.json("fire")
    assert (done["fire"], done["hygiene"]["fires_closed"]) == (2, [1])
    before = _everything(project)

    os.kill(fire.pid, signal.SIGCONT)
    assert fire.wait(timeout=30) == 1
    assert "closed by somebody else" in (project.folder / "stderr").read_text()
    assert _everything(project) == before
    assert not project.tagged()
    assert dict(project.query("select status, count(*) from stoker.task_queue group by status")) == {"done": 4}


def test_a_living_fire_is_never_closed_by_another(project: Project) -> None:
    """P5: a second fire of the lane is refused, recorded, explained, and gets no note; another lane is free."""
    project.write(CONFIG)
    project.enqueue("gated", 1)
    fire = project.start("fire")
    project.wait_for_starts(1)
    refused = project.json("fire")
    assert refused["refused"] == "fire 1 of this lane is still active"
    assert project.run("fire", "--exit-code").returncode == 11
    assert project.run("fire", "--lane", "other", "--mode", "quick").returncode == 0
    project.open_gate()
    assert fire.wait(timeout=30) == 0
    states = project.query("select state, count(*) from stoker.fires group by state order by state")
    assert states == [("closed", 2), ("refused", 2)]
    assert project.query("select count(*) from stoker.notes") == [(2,)]


def test_two_sweeps_close_a_stranded_fire_once(project: Project) -> None:
    """R54: three sweeps at the same moment: one closes it, one note, each task freed once."""
    project.write(CONFIG)
    project.enqueue("gated", *range(4))
    fire = project.start("fire")
    project.wait_for_starts(2)
    fire.kill()
    for keeper in project.keepers():
        os.kill(keeper, signal.SIGKILL)
    sweeps = [project.start("sweep", "--json") for _ in range(3)]
    assert [sweep.wait(timeout=30) for sweep in sweeps] == [0, 0, 0]
    assert project.query("select count(*) from stoker.notes") == [(1,)]
    assert project.query("select count(*), count(distinct id) from stoker.attempts") == [(2, 2)]
    assert not any(is_alive(pid) for *_, pid in project.ledger())


def _sums(project: Project) -> int:
    notes = project.query("select facts from stoker.notes")
    return sum(mode["done"] for (facts,) in notes for mode in facts["modes"])


def _everything(project: Project) -> list[list[tuple[object, ...]]]:
    tables = ("fires", "notes", "workers", "claims", "ready", "later", "outcomes", "attempts", "failed")
    return [project.query(f"select * from stoker.{table} t order by t::text") for table in tables]
