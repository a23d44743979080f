"""20,000 files audited in one fire, and a kill -9 in the middle of it, of each kind of process."""

import json
import os
import random
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.end_to_end.project import Project, is_alive
from tests.waiting import wait_until

FILES = 20_000
AUDIT = Path(__file__).parents[2] / "examples" / "audit" / "audit.py"
MIDDLE = 600

CONFIG = """
[limits]
max_pool = 2
task_cap = "none"
fires_per_day = "none"
[worker]
lease = "3s"
renew_every = "1s"
grace = "1s"
linger = "3s"
[hygiene]
fire_lease = "2s"
[modes.fixity]
handler = "slowly:fixity"
label = "status"
backoff_base = "500ms"
"""

SLOWLY = '''
"""The audit's own handler, a little slower; it waits in one file, in its first attempt, until it is killed."""

import json
import os
import time
from pathlib import Path

import audit

HERE = Path(__file__).parent
HELD = json.loads((HERE / "held").read_text())


def fixity(task):
    if task.payload["path"] == HELD and task.attempt == 1:
        (HERE / "holding.new").write_text(str(os.getpid()))
        (HERE / "holding.new").rename(HERE / "holding")
        time.sleep(600)
    time.sleep(0.0005)
    return audit.fixity(task)
'''


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """Files of realistic sizes: lognormal, 4 KB in the middle; gone afterwards."""
    home, chance = tmp_path_factory.mktemp("files"), random.Random(20_000)
    content = chance.randbytes(1 << 21)
    paths = []
    for number in range(FILES):
        folder = home / str(number // 200)
        if number % 200 == 0:
            folder.mkdir()
        start = chance.randrange(1 << 20)
        path = f"{folder}/{number}"
        with open(path, "wb") as file:  # noqa: PTH123 - a path object a file would take a third of the time
            file.write(content[start : start + min(int(chance.lognormvariate(8.3, 0.8)), 1 << 20)])
        paths.append(path)
    yield paths
    shutil.rmtree(home)


@pytest.fixture
def audit(project: Project, files: list[str]) -> Project:
    """A project with every file enqueued; no file is held."""
    shutil.copy(AUDIT, project.folder)
    (project.folder / "slowly.py").write_text(SLOWLY)
    (project.folder / "held").write_text("null")
    project.write(CONFIG)
    lines = "\n".join(json.dumps({"path": path, "was": None}) for path in files)
    assert project.json("enqueue", "fixity", "--jsonl", "-", stdin=lines)["enqueued"] == FILES
    return project


def test_a_killed_runner_costs_the_one_task_it_was_running_one_attempt(audit: Project, files: list[str]) -> None:
    """P1, P2: that task is named as lost, alone is charged, and is done later; every other is done in its first attempt."""
    (audit.folder / "held").write_text(json.dumps(files[FILES // 3]))
    fire = audit.start("fire")
    holding = audit.folder / "holding"
    wait_until(holding.exists, 60, "the held file was not reached")
    wait_until(lambda: settled(audit) > MIDDLE, 60)
    os.kill(int(holding.read_text()), signal.SIGKILL)
    assert fire.wait(timeout=120) == 0

    ((task,),) = audit.query("select id from stoker.tasks where payload->>'path' = %s", files[FILES // 3])
    facts = audit.facts()
    (lost,) = facts["failures"]
    assert (lost["mode"], lost["kind"], lost["count"], lost["retried"]) == ("fixity", "worker lost", 1, 1)
    assert lost["example"] == {"task": task, "attempt": 1, "error": "worker lost (SIGKILL)"}
    assert audit.query("select id, attempt, verdict from stoker.attempts") == [(task, 1, "retry")]
    assert audit.query("select lo, hi, attempt from stoker.outcomes where attempt > 1") == [(task, task, 2)]
    assert (facts["workers"]["lost"], facts["workers"]["respawns"]) == ([], 1)
    assert_done_once(audit)
    assert facts["modes"][0]["tally"] == {"new": FILES}
    assert f"Task {task}, attempt 1: worker lost (SIGKILL)" in audit.run("note").stdout


def test_a_killed_keeper_is_named_and_nothing_of_its_batch_is_lost(audit: Project) -> None:
    """P1: its claims are freed at once; what it left is done, by the other worker or by the next fire."""
    fire = start_and_reach_the_middle(audit)
    keeper = audit.keepers()[0]
    worker = audit.query("select worker::text from stoker.workers where (owner->>'pid')::int = %s", keeper)[0][0]
    os.kill(keeper, signal.SIGKILL)
    assert fire.wait(timeout=120) == 0
    (lost,) = audit.facts(1)["workers"]["lost"]
    assert (lost["worker"], lost["mode"], lost["how"]) == (worker, "fixity", "SIGKILL")
    assert not audit.tagged()
    assert audit.query("select count(*) from stoker.claims") == [(0,)]
    assert audit.run("fire").returncode == 0
    assert_done_once(audit)
    ((charged,),) = audit.query("select count(*) from stoker.attempts")
    assert charged <= 1


def test_a_killed_orchestrator_s_fire_is_closed_once_by_the_next_which_does_the_rest(audit: Project) -> None:
    """P4, P6: its workers end by themselves within their grace; one note, marked as reaped; the sums are right."""
    fire = start_and_reach_the_middle(audit)
    fire.kill()
    assert fire.wait(timeout=10) == -signal.SIGKILL
    wait_until(lambda: not audit.tagged(), 15, "processes are left after the grace")
    before = settled(audit)
    assert MIDDLE < before < FILES
    done = audit.json("fire")
    assert (done["fire"], done["hygiene"]["fires_closed"]) == (2, [1])
    notes = audit.query("select fire, facts->>'ended', facts->'modes'->0->>'done' from stoker.notes order by fire")
    assert notes == [(1, "reaped", str(before)), (2, "normal", str(FILES - before))]
    assert_done_once(audit)


def test_an_orchestrator_that_was_frozen_until_its_fire_was_closed_changes_nothing(audit: Project) -> None:
    """P2, P4: the next fire takes the work over from its living workers; awake again, it writes and leaves nothing."""
    fire = start_and_reach_the_middle(audit)
    workers = audit.keepers()
    os.kill(fire.pid, signal.SIGSTOP)
    wait_until(lambda: audit.query("select 1 from stoker.fires where lease_until < now()") != [], 10)
    assert settled(audit) < FILES
    done = audit.json("fire")
    assert (done["fire"], done["hygiene"]["fires_closed"]) == (2, [1])
    assert not any(is_alive(pid) for pid in workers)
    before = everything(audit)

    os.kill(fire.pid, signal.SIGCONT)
    assert fire.wait(timeout=30) == 1
    assert "closed by somebody else" in (audit.folder / "stderr").read_text()
    assert everything(audit) == before
    assert not audit.tagged()
    assert audit.query("select fire, count(*) from stoker.notes group by fire order by fire") == [(1, 1), (2, 1)]
    assert_done_once(audit)


def start_and_reach_the_middle(project: Project) -> Any:
    """A fire that runs, some hundreds of its tasks settled, most of them not."""
    fire = project.start("fire")
    wait_until(lambda: settled(project) > MIDDLE, 60, "the middle was not reached")
    assert settled(project) < FILES
    return fire


def settled(project: Project) -> int:
    """Tasks that are done."""
    ((count,),) = project.query("select coalesce(sum(hi - lo + 1), 0)::bigint from stoker.outcomes")
    return int(count)


def assert_done_once(project: Project) -> None:
    """O1, O2, O4: every task has one outcome and stands nowhere else; the notes add up to them."""
    counted = "select count(*), count(distinct id) from stoker.outcomes, generate_series(lo, hi) as id"
    assert project.query(counted) == [(FILES, FILES)]
    for table in ("ready", "later", "claims", "failed", "unknown"):
        assert project.query(f"select count(*) from stoker.{table}") == [(0,)]
    notes = project.query("select facts from stoker.notes")
    assert sum(mode["done"] for (facts,) in notes for mode in facts["modes"]) == FILES
    assert not project.tagged()


def everything(project: Project) -> list[tuple[Any, ...]]:
    """A digest of every table that a fire writes."""
    tables = ("fires", "notes", "workers", "claims", "ready", "later", "outcomes", "attempts", "failed")
    digest = "select count(*), md5(string_agg(t::text, ' ' order by t::text)) from stoker.{} t"
    return [project.query(digest.format(table))[0] for table in tables]
