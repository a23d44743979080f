"""A schema says whose work it holds; a process that is meant for another refuses to start."""

import subprocess
import sys

import pytest
from tests.end_to_end.project import Project

from stoker.sql.database import Database
from stoker.sql.target import Target
from stoker.watchdog.channels import Pager
from stoker.watchdog.settings import WatchdogSettings
from stoker.watchdog.watch import Watch

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


@pytest.mark.parametrize(
    "words", [["--once"], [], ["drill"], ["ack", "slot x", "--why", "mine"]], ids=lambda words: " ".join(words)
)
def test_a_watchdog_of_another_environment_refuses_to_start(mainnet: Project, words: list[str]) -> None:
    """Also one that would stay; it writes nothing, pages nobody, and remembers no database that is away."""
    mainnet.query("insert into stoker.incidents (cause, words) values ('slot x', 'w') returning 1")
    mainnet.write(MODES + '[watchdog]\ncommand = ["touch", "told"]\nunreachable_after = "1ms"\n')
    command = [sys.executable, "-P", "-m", "stoker.watchdog.cli", *words]
    theirs = mainnet.environment(STOKER_DATABASE_ENVIRONMENT="testnet")
    looked = subprocess.run(command, cwd=mainnet.folder, env=theirs, capture_output=True, text=True, check=False, timeout=60)
    assert (looked.returncode, looked.stdout) == (2, "")
    assert "belongs to environment 'mainnet'" in looked.stderr
    left = "select cause, acked_by, resolved_at, (select count(*) from stoker.heartbeats) from stoker.incidents"
    assert mainnet.query(left) == [("slot x", None, None, 0)]
    assert not (mainnet.folder / "told").exists()
    assert not (mainnet.folder / ".stoker" / "watchdog.json").exists()


def test_a_watchdog_whose_schema_was_renamed_stays_and_says_so(mainnet: Project) -> None:
    """R78: it cannot check any more, and nobody else would tell; it writes nothing there, not even that it ends."""
    keys = {"webhook": "http://127.0.0.1:1/"}
    settings, own = WatchdogSettings.of(keys), Database(Target(mainnet.url))
    pager = Pager(settings, mainnet.folder)
    dog = Watch(own, settings, pager, mainnet.folder / "state", environment="mainnet")
    assert dog.look().findings == []
    mainnet.query("update stoker.installation set environment = 'testnet' returning 1")
    before = mainnet.query("select * from stoker.heartbeats")
    assert "belongs to environment 'testnet'" in dog.look().why
    dog.say_farewell()
    assert mainnet.query("select * from stoker.heartbeats") == before
    mainnet.query("update stoker.installation set environment = 'mainnet' returning 1")
    assert dog.look().findings == []
    dog.close()
