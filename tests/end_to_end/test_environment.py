"""A schema says whose work it holds; a process that is meant for another refuses to start."""

import subprocess
import sys

import pytest
from tests.end_to_end.project import Project

MODES = '[modes.plain]\nhandler = "jobs:plain"\n'


@pytest.fixture
def mainnet(project: Project) -> Project:
    """A project whose schema is mainnet's."""
    project.write(MODES)
    assert project.run("enqueue", "plain", "1", STOKER_DATABASE_ENVIRONMENT="mainnet").returncode == 0
    return project


@pytest.mark.parametrize(
    "command", [["fire"], ["run"], ["enqueue", "plain", "2"], ["sweep"], ["tasks", "cancel", "1"], ["status"]]
)
@pytest.mark.parametrize("named", ["testnet", ""])
def test_a_process_of_another_environment_or_of_none_refuses_to_start(mainnet: Project, command: list[str], named: str) -> None:
    """It names both, and nothing is done."""
    refused = mainnet.run(*command, STOKER_DATABASE_ENVIRONMENT=named)
    assert refused.returncode == 2
    assert "belongs to environment 'mainnet'" in refused.stderr
    assert ("says 'testnet'" if named else "names none") in refused.stderr
    assert mainnet.query("select count(*), (select count(*) from stoker.fires), min(status) from stoker.task_queue") == [
        (1, 0, "queued")
    ]


def test_its_own_goes_on_and_a_renaming_is_an_event(mainnet: Project) -> None:
    """Who renames it says why."""
    assert mainnet.run("fire", STOKER_DATABASE_ENVIRONMENT="mainnet").returncode == 0
    assert mainnet.run("db", "environment").stdout == "mainnet\n"
    assert "say why" in mainnet.run("db", "environment", "testnet").stderr
    assert "63 characters" in mainnet.run("db", "environment", "a b", "--reason", "x").stderr
    assert mainnet.run("db", "environment", "testnet", "--reason", "a copy", "--by", "ann").stdout == "testnet\n"
    assert mainnet.run("status", STOKER_DATABASE_ENVIRONMENT="mainnet").returncode == 2
    assert mainnet.run("status", STOKER_DATABASE_ENVIRONMENT="testnet").returncode == 0
    events = mainnet.query("select actor, action, reason, detail->>'to' from stoker.events")
    assert events == [("ann", "environment renamed", "a copy", "testnet")]
    assert mainnet.run("db", "environment", "", "--reason", "nobody's").stdout == "(no name)\n"
    assert mainnet.run("status").returncode == 0


def test_a_watchdog_of_another_environment_cannot_check(mainnet: Project) -> None:
    """R78: it looks at the wrong thing, which is neither missed nor in order."""
    command = [sys.executable, "-P", "-m", "stoker.watchdog.cli", "--once"]
    theirs = mainnet.environment(STOKER_DATABASE_ENVIRONMENT="testnet")
    looked = subprocess.run(command, cwd=mainnet.folder, env=theirs, capture_output=True, text=True, check=False)
    assert looked.returncode != 0
    assert "belongs to environment 'mainnet'" in looked.stdout + looked.stderr
