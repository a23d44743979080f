"""P11: a mode whose own health function says no takes no task, burns no attempt, and says why."""

import json

import pytest
from tests.end_to_end.project import Project

CONFIG = """
[limits]
fires_per_day = "none"
[worker]
linger = "0s"
[modes.quick]
handler = "jobs:quick"
health = "jobs:well"
env = ["API_TOKEN"]
[modes.program]
command = ["/bin/sh", "-c", "echo start program $STOKER_TASK $STOKER_ATTEMPT 0 >> ledger"]
health = "jobs:well"
env = ["API_TOKEN"]
"""
JOBS = """
def well():
    print("looking", flush=True)
    if (HERE / "no").exists():
        return False
    if (HERE / "sick").exists():
        raise OSError("no scratch disk for " + os.environ["API_TOKEN"])
"""
SICK = "health check failed: OSError: no scratch disk for [env.API_TOKEN]"


@pytest.mark.parametrize("mode", ["quick", "program"])
def test_a_mode_that_is_not_well_takes_nothing_and_says_why_until_it_is(project: Project, mode: str) -> None:
    """The note, status and ready say it, the log that it is so; the next fire asks again."""
    project.write(CONFIG, JOBS)
    (project.folder / "sick").touch()
    (task,) = project.enqueue(mode, 1)
    fired = project.run("fire", API_TOKEN="hunter2hunter2")
    assert fired.returncode == 0
    assert "hunter2" not in fired.stdout + fired.stderr
    assert project.ledger() == []
    assert [json.loads(line)["why"] for line in fired.stderr.splitlines() if "worker cannot work" in line] == [
        "health check failed"
    ]
    shown = project.json("tasks", "show", str(task))
    assert (shown["status"], shown["attempts"]) == ("queued", 0)
    facts = project.facts()
    assert facts["workers"]["exits"] == {"broken": 1}
    assert facts["needs"][0]["text"].startswith(f"{mode}: {SICK}. ")
    words = f"mode {mode}: its health check failed in fire 1: OSError: no scratch disk for [env.API_TOKEN]"
    assert words in project.run("status").stdout.splitlines()
    assert words in json.loads(project.run("ready", "--json").stdout)["missing"]
    (project.folder / "sick").unlink()
    assert project.run("fire", API_TOKEN="hunter2hunter2").returncode == 0
    assert len(project.ledger()) == 1
    assert project.json("status")["unusable"] == []


def test_a_health_function_may_import_what_is_beside_it_when_it_is_called(project: Project) -> None:
    """Of a program's mode too, where it runs in a process of its own."""
    project.write(CONFIG.replace("jobs:well", "jobs:lazy"), JOBS + "def lazy():\n    import beside\n    return beside.WELL\n")
    (project.folder / "beside.py").write_text("WELL = True\n")
    project.enqueue("program", 1)
    project.enqueue("quick", 1)
    assert project.run("fire").returncode == 0
    assert {row["status"] for row in project.json("tasks", "ls")} == {"done"}


def test_the_doctor_asks_too(project: Project) -> None:
    """Of a function that is not there it says that, and of False whose it was."""
    project.write(CONFIG + '[modes.lost]\nhandler = "jobs:quick"\nhealth = "jobs:nowhere"\n', JOBS)
    (project.folder / "no").touch()
    done = project.run("doctor", "--json")
    assert done.returncode == 2
    said = [one["text"] for one in json.loads(done.stdout) if not one["ok"]]
    assert "health check failed: jobs:well returned False. Its workers take no task." in said
    assert any("health check failed: AttributeError: module 'jobs' has no" in text for text in said)
    (project.folder / "no").unlink()
    assert "jobs:well says that it can do its work here" in project.run("doctor").stdout
