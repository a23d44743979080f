"""After a restore from an old dump: what was running then is over in some way that nobody knows."""

import json
import os
import subprocess
import uuid
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Any

import psycopg
import pytest
from tests.hygiene.scenes import python
from tests.postgres import Cluster
from tests.sql.factory import claim, fill, open_fire
from tests.sql.oracle import Counts, check

from stoker.hygiene.close import Terms
from stoker.hygiene.identity import Identity, mine, of
from stoker.hygiene.restored import QUESTION, RestoredError, StillAliveError, installation_of, quarantine
from stoker.sql import embedded
from stoker.sql.database import Database
from stoker.sql.target import Target

GONE = asdict(mine()) | {"boot_id": "of another life"}
TERMS = Terms("restored", str(uuid.uuid4()), reap_ghosts=False)


@pytest.fixture
def stoker(database: str) -> Iterator[Database]:
    made = Database(Target(database), patience_seconds=5.0)
    yield made
    made.close()


def register(database: Database, fire: int, mode: str, owner: dict[str, Any]) -> str:
    worker = str(uuid.uuid4())
    parameters = {"mode": mode, "ordinal": 1, "owner": json.dumps(owner), "lease": 600.0}
    assert database.run("register_worker", worker=worker, fire=fire, **parameters)
    return worker


def at_work(database: Database, owner: dict[str, Any] | None = None) -> int:
    """A fire with workers in the midst of their work; its number."""
    fire = open_fire(database)
    pure, side, ahead = (register(database, fire, mode, owner or GONE) for mode in ("m", "s", "a"))
    with database.raw() as connection:
        connection.execute("update stoker.fires set owner = %s", (json.dumps(owner or GONE),))
        fill(connection, 4, span=4)
        fill(connection, 1, mode="s")
        fill(connection, 1, mode="a")
    assert len(claim(database, pure, 3).ids) == 3
    assert claim(database, side, mode="s", side_effect=True).ids
    assert claim(database, ahead, mode="a", ahead=True).ids
    return fire


def by_template(cluster: Cluster, source: str, tmp_path: Any) -> str:
    name = cluster.create(source)
    return cluster.url(name)


def by_dump(cluster: Cluster, source: str, tmp_path: Any) -> str:
    """As an operator does it."""
    place = embedded.find_binaries().psql.parent
    if not (place / "pg_dump").exists():
        pytest.skip("no pg_dump is installed here")
    url = cluster.url(cluster.create())
    dump = subprocess.run([place / "pg_dump", cluster.url(source)], capture_output=True, check=True).stdout
    subprocess.run([place / "psql", "-q", "-v", "ON_ERROR_STOP=1", url], input=dump, check=True, stdout=subprocess.DEVNULL)
    return url


@pytest.mark.parametrize("restore", [by_template, by_dump])
def test_what_was_running_is_quarantined_and_its_fire_gets_a_note(
    stoker: Database, database: str, cluster: Cluster, tmp_path: Any, restore: Callable[..., str]
) -> None:
    """P1, P3, P4: started tasks are held, side effects unknown, the others go back; no worker is left, no fire open."""
    fire = at_work(stoker)
    stoker.close()
    url = restore(cluster, psycopg.conninfo.conninfo_to_dict(database)["dbname"], tmp_path)
    there = Database(Target(url))
    if restore is by_dump:
        with pytest.raises(RestoredError, match="stoker restored --copy"):
            installation_of(there)
    done = quarantine(there, TERMS, actor="test")
    assert asdict(done) == {"workers": 3, "fires": 1, "unstarted": 1, "held": 3, "unknown": 1, "cancelled": 0, "messages": 0}
    with there.raw() as connection:
        assert check(connection) == Counts(ready=2, held=3, unknown=1)
        assert connection.execute("select distinct kind, question, attempts from stoker.held").fetchall() == [
            ("restored", QUESTION, 0)
        ]
        assert connection.execute("select count(*) from stoker.workers where exited_at is null").fetchone() == (0,)
        assert connection.execute("select action, actor from stoker.events").fetchall() == [("restored", "test")]
        ((state, verdict, facts),) = connection.execute(
            "select f.state, n.verdict, n.facts from stoker.fires f join stoker.notes n using (fire)"
        ).fetchall()
    assert (state, facts["ended"], facts["fire"]) == ("closed", "restored", fire)
    assert "restored from a dump" in verdict
    assert asdict(quarantine(there, TERMS, actor="test"))["workers"] == 0
    assert installation_of(there) == there.run("installation")[0][0]
    there.close()


def test_nothing_is_told_before_a_person_says_so(stoker: Database) -> None:
    """Neither what waited when the dump was made, nor the notes of the fires that are closed now."""
    fire = at_work(stoker)
    stoker.run("say_channels", fire=fire, channels='{"ops": "always"}')
    stoker.run("post_note", fire=fire + 1, channels=["ops"], state="queued")
    assert quarantine(stoker, TERMS, actor="test").messages == 1
    with stoker.raw() as connection:
        rows = connection.execute("select fire, state from stoker.outbox order by fire").fetchall()
    assert rows == [(fire, "held"), (fire + 1, "held")]


@pytest.mark.parametrize("forced", ["force", "is_copy"])
def test_it_refuses_while_an_owner_lives_on_this_host(stoker: Database, database: str, forced: str) -> None:
    """And names it; it changes nothing, and ends nobody when it is forced. A copy gets an identity of its own."""
    child = python("import time; time.sleep(600)", "", env=dict(os.environ))
    try:
        alive = of(child.popen.pid)
        assert isinstance(alive, Identity)
        at_work(stoker, asdict(alive))
        before = stoker.run("installation")
        with pytest.raises(StillAliveError, match=rf"worker .*pid {alive.pid}.* nothing was changed"):
            quarantine(stoker, TERMS, actor="test")
        with stoker.raw() as connection:
            assert check(connection) == Counts(ready=1, claimed=5)
        assert quarantine(stoker, TERMS, actor="test", **{forced: True}).fires == 1
        assert child.popen.poll() is None
        assert (stoker.run("installation") == before) == (forced == "force")
    finally:
        child.popen.kill()
        child.popen.wait()


def test_what_was_to_be_cancelled_is(stoker: Database) -> None:
    """But not a side effect: whether it happened must be asked all the same."""
    at_work(stoker)
    with stoker.raw() as connection:
        connection.execute("insert into stoker.cancel_requests (id, actor) select id, 'test' from stoker.tasks")
        assert quarantine(stoker, TERMS, actor="test").cancelled == 3
        assert check(connection) == Counts(ready=2, unknown=1, cancelled=3)


def test_a_fire_of_an_unknown_boot_is_suspicious_after_a_day(stoker: Database) -> None:
    """Of a boot that a sweep has seen it is not."""
    fire = at_work(stoker)
    assert stoker.run("strange_fires") == []
    with stoker.raw() as connection:
        connection.execute("update stoker.fires set opened_at = opened_at - interval '25 hours'")
        assert [row[0] for row in stoker.run("strange_fires")] == [fire]
        connection.execute("insert into stoker.hosts values (%s, 'h', 0)", (GONE["boot_id"],))
    assert stoker.run("strange_fires") == []
