"""The example of six steps, killed at every one of them, before and after what it did is stored."""

import json
import shutil
from pathlib import Path

import psycopg
from tests.end_to_end.project import Project
from tests.sql.oracle import check

EXAMPLE = Path(__file__).parents[2] / "examples" / "provision"
STEPS = ["schema", "tables", "rates", "report", "grants", "check"]

# Runs the example, and kills its process once in each step after the work, and its keeper with it once after each step.
KILLER = """
import os, signal
from pathlib import Path
import provision as example
from stoker.worker.task import Task

HERE = Path(__file__).parent
kept = Task.step


def once(word):
    try:
        (HERE / word).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def step(self, name, work):
    def working():
        with (HERE / "done").open("a") as ledger:
            ledger.write(name + "\\n")
        result = work()
        if once(f"in {name}"):
            os.kill(os.getpid(), signal.SIGKILL)
        return result
    result = kept(self, name, working)
    if once(f"after {name}"):
        os.kill(os.getppid(), signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)
    return result


def provision(task):
    Task.step = step
    return example.provision(task)
"""


def test_a_task_that_is_killed_at_every_step_does_each_and_ends_right(project: Project) -> None:
    """P1, P3: a step whose end was stored is never done again; one that was cut off before is done once more."""
    shutil.copy(EXAMPLE / "provision.py", project.folder)
    (project.folder / "killer.py").write_text(KILLER)
    config = (EXAMPLE / "config.toml").read_text().replace("provision:provision", "killer:provision")
    project.write('[worker]\nlinger = "100ms"\n' + config + 'backoff_cap = "10ms"\n')
    (task,) = project.enqueue("provision", {"tenant": "acme"})
    for _ in STEPS:
        project.run("fire", PROVISION_URL=project.url)
    assert project.run("fire", PROVISION_URL=project.url).returncode == 0
    assert project.query("select status, attempts from stoker.task_queue where id = %s", task) == [("done", 13)]
    done = (project.folder / "done").read_text().split()
    assert done == [name for name in STEPS for _ in range(2)]
    wanted = {"schema": "acme", "tables": ["orders", "rates"], "rates": 3, "report": "report", "grants": ["report"], "check": 3}
    assert project.query("select result from stoker.outcomes where lo = %s", task) == [(wanted,)]
    assert project.query("select fraction, words from stoker.progress where id = %s", task) == [(1.0, "check")]
    assert dict(project.query("select currency, rate from acme.rates")) == {"eur": 1.0, "usd": 1.1, "gbp": 0.85}
    assert project.query("select count(*) from acme.report") == [(0,)]
    may = "select has_schema_privilege('public', 'acme', 'usage'), has_table_privilege('public', 'acme.report', 'select')"
    assert project.query(may) == [(True, True)]
    assert project.query("select name from stoker.steps order by finished_at") == [(name,) for name in STEPS]
    with psycopg.connect(project.url) as connection:
        check(connection)


def test_a_tenant_that_cannot_be_is_refused_at_once(project: Project) -> None:
    """What fail_on lists is not tried twenty times."""
    shutil.copy(EXAMPLE / "provision.py", project.folder)
    project.write((EXAMPLE / "config.toml").read_text())
    (task,) = project.enqueue("provision", {"tenant": "drop table"})
    project.run("fire", PROVISION_URL=project.url)
    found = project.query("select attempts, error_kind from stoker.failed where id = %s", task)
    assert found == [(1, "BadTenantError")], json.dumps(found)
