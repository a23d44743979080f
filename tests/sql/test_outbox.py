"""The outbox's statements: bounded whatever history there is, kept as long as needed, right beside a person's moves."""

import json
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
from tests.sql.factory import open_fire
from tests.waiting import wait_until

from stoker.sql.database import Database
from stoker.sql.query import load
from stoker.sql.retention import prune
from stoker.sql.target import Target

Connection = psycopg.Connection[Any]
KEEP = 30 * 86_400.0


def post(connection: Connection, fire: int, channel: str = "ops", state: str = "queued", days: int = 0) -> int:
    row = connection.execute(
        "insert into stoker.outbox (kind, channel, fire, state, created_at, state_at) values ('note', %s, %s, %s,"
        " now() - make_interval(days => %s), now() - make_interval(days => %s)) returning message",
        (channel, fire, state, days, days),
    ).fetchone()
    assert row is not None
    return int(row[0])


def note(stoker: Database, connection: Connection, days: int) -> int:
    """A closed fire with a note, so many days ago."""
    fire = open_fire(stoker, uuid.uuid4().hex)
    connection.execute(
        "update stoker.fires set state = 'closed', closed_at = now() - make_interval(days => %s),"
        " opened_at = now() - make_interval(days => %s) where fire = %s",
        (days, days, fire),
    )
    connection.execute("insert into stoker.notes (fire, verdict, facts) values (%s, 'x', '{}')", (fire,))
    return fire


@pytest.fixture
def history(connection: Connection) -> Connection:
    """A hundred thousand messages that were delivered, ten that are dead, two that wait."""
    connection.execute(
        "insert into stoker.outbox (kind, channel, fire, state)"
        " select 'note', 'ops', n, 'delivered' from generate_series(1, 100000) n"
    )
    for fire in range(200_001, 200_011):
        post(connection, fire, state="dead")
    for fire in range(300_001, 300_003):
        post(connection, fire)
    connection.execute("insert into stoker.channels (channel) values ('ops')")
    connection.execute("vacuum analyze stoker.outbox")
    return connection


BOUNDED: dict[str, dict[str, Any]] = {
    "take_channel": {"channel": "ops", "token": str(uuid.uuid4()), "lease": 60.0},
    "pick_message": {"channel": "ops"},
    "collapse_stale": {"channel": "ops", "stale": 300.0},
    "outbox_counts": {},
    "list_outbox": {"state": None, "channel": None, "limit": 20},
    "undelivered_of": {"fire": 300_001},
    "record_sent": {"channel": "ops", "token": str(uuid.uuid4()), "message": 100_012, "remark": None},
    "list_collapsed": {"message": 100_012, "limit": 50},
}


@pytest.mark.parametrize("name", BOUNDED)
def test_history_costs_nothing(history: Connection, name: str) -> None:
    """P10: what is sent next, what is shown and what is recorded reads a few blocks, not what was."""
    text = f"explain (analyze, buffers, format json) {load(name, 'stoker')}"
    with history.transaction(force_rollback=True):
        history.execute(text.encode(), BOUNDED[name] or None)
        ((plan,),) = history.execute(text.encode(), BOUNDED[name] or None).fetchall()
    touched = plan[0]["Plan"]["Shared Hit Blocks"] + plan[0]["Plan"]["Shared Read Blocks"]
    assert touched < 250, json.dumps(plan)


def test_what_is_over_goes_and_what_waits_keeps_its_note(stoker: Database, connection: Connection) -> None:
    """Retention: delivered, dropped and dead after the period; a fire stays while a message of it waits, or is held."""
    fires = {state: note(stoker, connection, 40) for state in ("delivered", "dropped", "dead", "queued", "held")}
    for state, fire in fires.items():
        post(connection, fire, state=state, days=40)
    young = post(connection, note(stoker, connection, 1), state="delivered", days=1)
    for lane in ("later", *(row[0] for row in connection.execute("select lane from stoker.fires").fetchall())):
        for _ in range(20 if lane == "later" else 16):
            fire = open_fire(stoker, lane) if lane == "later" else note(stoker, connection, 0)
            connection.execute(
                "update stoker.fires set lane = %s, state = 'closed', closed_at = now() where fire = %s", (lane, fire)
            )
    prune(stoker, KEEP)
    left = dict(connection.execute("select state, fire from stoker.outbox where message <> %s", (young,)).fetchall())
    assert left == {"queued": fires["queued"], "held": fires["held"]}
    kept = {fire for (fire,) in connection.execute("select fire from stoker.notes").fetchall()}
    assert {state for state, fire in fires.items() if fire in kept} >= {"queued", "held"}
    assert fires["delivered"] not in kept
    connection.execute("update stoker.marks set resume_at = '-infinity'")
    prune(stoker, KEEP)
    kept = {fire for (fire,) in connection.execute("select fire from stoker.notes").fetchall()}
    assert {state for state, fire in fires.items() if fire in kept} == {"queued", "held"}


def test_the_notes_of_a_digest_stay_as_long_as_it(stoker: Database, connection: Connection) -> None:
    for fire in (1, 2):
        post(connection, fire, days=40)
    connection.execute("insert into stoker.channels (channel) values ('ops')")
    assert len(stoker.run("collapse_stale", channel="ops", stale=300.0)) == 2
    connection.execute("update stoker.outbox set state_at = now() - interval '40 d'")
    prune(stoker, KEEP)
    assert connection.execute("select count(*) from stoker.outbox").fetchall() == [(3,)]
    connection.execute("update stoker.outbox set state = 'dead' where kind = 'digest'")
    for _ in range(2):
        connection.execute("update stoker.marks set resume_at = '-infinity'")
        prune(stoker, KEEP)
    assert connection.execute("select count(*) from stoker.outbox").fetchall() == [(0,)]


def test_one_stale_note_stays_itself(stoker: Database, connection: Connection) -> None:
    """Nor does what is young, or may have been received, go into a digest."""
    post(connection, 1, days=1)
    post(connection, 2)
    doubtful = post(connection, 3, days=1)
    connection.execute("update stoker.outbox set in_doubt = true where message = %s", (doubtful,))
    assert stoker.run("collapse_stale", channel="ops", stale=300.0) == []
    post(connection, 4, channel="other", days=1)
    assert stoker.run("collapse_stale", channel="ops", stale=300.0) == []


def test_what_a_person_drops_meanwhile_goes_into_no_digest(stoker: Database, connection: Connection, database: str) -> None:
    """Whoever commits first wins; the other looks again."""
    for fire in (1, 2, 3):
        post(connection, fire, days=1)
    (first,) = connection.execute("select min(message) from stoker.outbox").fetchone() or (0,)
    own = Database(Target(database))
    with psycopg.connect(database) as person, ThreadPoolExecutor(1) as pool:
        person.execute("update stoker.outbox set state = 'dropped' where message = %s", (first,))
        collapsing = pool.submit(own.run, "collapse_stale", channel="ops", stale=300.0)
        waiting = "select 1 from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()"
        wait_until(lambda: connection.execute(waiting).fetchall(), 10, "it waits for the row")
        person.commit()
        assert len(collapsing.result(10)) == 2
    own.close()
    states = connection.execute(
        "select state, count(*) from stoker.outbox where kind = 'note' group by 1 order by 1"
    ).fetchall()
    assert states == [("collapsed", 2), ("dropped", 1)]


def test_a_dropped_digest_takes_its_notes_with_it(stoker: Database, connection: Connection) -> None:
    for fire in (1, 2):
        post(connection, fire, days=1)
    stoker.run("collapse_stale", channel="ops", stale=300.0)
    ((digest,),) = connection.execute("select message from stoker.outbox where kind = 'digest'").fetchall()
    assert stoker.run("drop_message", message=digest, channel=None, actor="ann", reason="x") == [(digest,)]
    assert connection.execute("select distinct state from stoker.outbox").fetchall() == [("dropped",)]
    assert stoker.run("drop_message", message=digest, channel=None, actor="ann", reason="x") == []


def test_an_error_is_bounded_where_it_is_written(stoker: Database, connection: Connection) -> None:
    message = post(connection, 1)
    token = str(uuid.uuid4())
    stoker.run("enter_channels", channels=["ops"])
    stoker.run("take_channel", channel="ops", token=token, lease=60.0)
    facts = {"channel": "ops", "message": message, "token": token, "rest": 1.0, "in_doubt": False, "state": "queued"}
    assert stoker.run("record_refused", **facts, error="x" * 10_000)
    assert connection.execute("select length(last_error) from stoker.outbox").fetchall() == [(500,)]
