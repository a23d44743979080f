"""R82, T06: a role that owns nothing runs everything, and changes no table."""

import json
import subprocess
import sys
from collections.abc import Iterator
from urllib.parse import urlsplit

import psycopg
import pytest
from tests.end_to_end.project import Project
from tests.waiting import wait_until

ROLE = "stoker run"  # to be quoted
CONFIG = """
[limits]
fires_per_day = "none"
[worker]
linger = "0s"
[modes.quick]
handler = "jobs:quick"
[modes.failing]
handler = "jobs:failing"
max_attempts = 1
[notify.ops]
kind = "file"
folder = "told"
[watchdog]
command = ["/bin/sh", "-c", "cat >> pages"]
oldest_task = "1h"
[[schedules]]
name = "often"
every = "1s"
"""
FORBIDDEN = (
    "create table {schema}.mine (a int)",
    "create function {schema}.mine() returns int language sql return 1",
    "create schema mine",
    "alter table {schema}.tasks add column mine int",
    "create index mine on {schema}.fires (lane)",
    "drop table {schema}.tasks_2",
    "truncate {schema}.notes",
    "alter table {schema}.events disable trigger all",
    "update {schema}.migrations set checksum = ''",
    "delete from {schema}.migrations",
    "insert into {schema}.migrations (number, name, checksum) values (99, 'x', 'x')",
    "drop schema {schema} cascade",
)


@pytest.fixture
def owned(project: Project) -> Iterator[Project]:
    """A project whose commands run as the role; ``owner`` commands as the tables' owner."""
    project.write(CONFIG)
    with psycopg.connect(project.url, autocommit=True) as connection:
        connection.execute(f'create role "{ROLE}" login'.encode())
    yield project
    with psycopg.connect(project.url, autocommit=True) as connection:
        connection.execute(f'drop owned by "{ROLE}"'.encode())
        connection.execute(f'drop role "{ROLE}"'.encode())


def as_role(project: Project) -> str:
    """The same database by the other role."""
    parts = urlsplit(project.url)
    return parts._replace(netloc=ROLE.replace(" ", "%20") + "@").geturl()


def test_a_role_with_the_grants_runs_everything_and_changes_no_table(owned: Project) -> None:
    """Fires, workers, sweeps, retention, delivery, people's moves, the standing process and the watchdog."""
    url = as_role(owned)

    def run(*words: str, code: int = 0) -> str:
        done = owned.run(*words, STOKER_DATABASE_URL=url)
        assert done.returncode == code, f"{words}: {done.stdout}{done.stderr}"
        return done.stdout

    assert "permission denied" in owned.run("fire", STOKER_DATABASE_URL=url).stderr
    assert owned.run("db", "grants", ROLE).returncode == 0
    run("enqueue", "quick", "1", "--key", "one", "--tag", "a")
    run("enqueue", "failing", "2")
    run("enqueue", "quick", "3", "--needs-approval")
    run("fire")
    assert len(owned.ledger()) == 2
    run("sweep")
    run("tasks", "retry", "2", "--reason", "again")
    run("tasks", "approve", "3", "--reason", "yes")
    run("pause", "quick", "--reason", "wait")
    run("unpause", "quick")
    run("gate", "close", "--reason", "moving")
    run("gate", "open")
    run("enqueue", "quick", "4", "--key", "late", "--delay", "1h")
    run("fire", "--due")
    run("wrap", "job", "--expect", "1h", "--", "true")
    run("deliver")
    for words in (
        "status",
        "ready",
        "doctor",
        "tasks ls",
        "fires ls",
        "note",
        "outbox",
        "slots",
        "events",
        "plan",
        "tasks show --mode quick --key late",
    ):
        run(*words.split())
    assert list((owned.folder / "told").iterdir())
    standing = owned.start("run", STOKER_DATABASE_URL=url)
    wait_until(
        lambda: owned.query("select from stoker.slots where state = 'ran' and due_at > now() - interval '5 s'"), 30, "a fire"
    )
    standing.terminate()
    assert standing.wait(timeout=30) == 0
    swept = owned.run("sweep", "--json", STOKER_DATABASE_URL=url, STOKER_HYGIENE_KEEP="1s")
    assert json.loads(swept.stdout)["pruned"]["tasks"] > 0
    look = [sys.executable, "-P", "-m", "stoker.watchdog.cli", "--once"]
    environment = owned.environment(STOKER_DATABASE_URL=url)
    done = subprocess.run(look, cwd=owned.folder, env=environment, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "all is well\n"), done.stderr
    refused = owned.run("migrate", STOKER_DATABASE_URL=url)
    assert (refused.returncode, "Run it as the owner of schema 'stoker'" in refused.stderr) == (1, True)
    refused = owned.run("db", "grants", ROLE, STOKER_DATABASE_URL=url)
    assert (refused.returncode, "the schema stoker is another role's" in refused.stderr) == (2, True)
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in FORBIDDEN:
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(statement.format(schema="stoker").encode())


def test_a_role_that_may_not_make_partitions_says_who_must(owned: Project) -> None:
    """Ids go on, into the net; the note says what is to be done, until the owner has done it."""
    owned.run("db", "grants", ROLE)
    owned.query("select setval('stoker.task_ids', 29999990)")
    done = owned.run("fire", STOKER_DATABASE_URL=as_role(owned))
    assert done.returncode == 0, done.stderr
    assert "As that owner: stoker sweep" in done.stdout
    assert owned.run("sweep").returncode == 0
    assert "owner" not in owned.run("fire", STOKER_DATABASE_URL=as_role(owned)).stdout


def test_the_grants_can_be_read_before_they_are_run(owned: Project) -> None:
    """As a script; a role that is not there is named."""
    shown = owned.run("db", "grants", ROLE, "--sql").stdout
    assert shown.splitlines()[0] == f'grant usage on schema "stoker" to "{ROLE}";'
    assert "create" not in shown
    done = owned.run("db", "grants", "nobody")
    assert (done.returncode, "there is no role 'nobody'" in done.stderr) == (2, True)
