"""Slots: every due time becomes one, whatever was asleep, however many triggers come."""

import threading
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from tests.orchestrator.test_admission import ask

from stoker.orchestrator.admission import Admission, admit
from stoker.orchestrator.settings import ScheduleSettings
from stoker.sql.database import Database
from stoker.sql.target import Target

Connection = psycopg.Connection[Any]


@pytest.fixture
def stoker(database: str) -> Iterator[Database]:
    made = Database(Target(database))
    yield made
    made.close()


@pytest.fixture
def connection(database: str) -> Iterator[Connection]:
    with psycopg.connect(database, autocommit=True) as made:
        yield made


def scheduled(**keys: Any) -> ScheduleSettings:
    return ScheduleSettings.of({"name": "s", "cron": "*/5 * * * *", **keys})


def trigger(database: Database, schedule: ScheduleSettings, **changes: Any) -> Admission:
    """One trigger that comes by; a fire that it opens ends at once."""
    request = replace(ask(schedule.lane, fires_per_day=None), schedule=schedule, **changes)
    found = admit(database, request)
    if found.fire and found.refusal is None:
        close(database, found.fire)
    return found


def close(database: Database, fire: int) -> None:
    with database.raw() as own:
        own.execute("update stoker.fires set state = 'closed', closed_at = now() where fire = %s", (fire,))


def sleep_through(connection: Connection, **time: float) -> None:
    """So long nobody came: all that was registered and decided lies as far back."""
    by = timedelta(**time)
    connection.execute("update stoker.schedules set since = since - %s", (by,))
    for step in (timedelta(days=100_000), by - timedelta(days=100_000)):  # far away first, where nobody stands in the way
        connection.execute("update stoker.slots set due_at = due_at - %s, last_due_at = last_due_at - %s", (step, step))


def slots(connection: Connection) -> list[tuple[Any, ...]]:
    return connection.execute("select due_at, last_due_at, state, reason, fire from stoker.slots order by due_at").fetchall()


def test_a_new_schedule_is_silent_until_its_first_due_time(stoker: Database, connection: Connection) -> None:
    """What was due before it was known is of no concern."""
    assert trigger(stoker, scheduled()).idle
    assert slots(connection) == []
    sleep_through(connection, minutes=5)
    assert trigger(stoker, scheduled()).fire


@pytest.mark.parametrize("hours", [0.5, 9, 84, 40_000])
def test_of_many_missed_slots_the_latest_is_made_good_once(stoker: Database, connection: Connection, hours: float) -> None:
    """R06, R07: 6, 108, 1,008, 480,000 slots: one fire, the rest listed as missed, the next on time."""
    trigger(stoker, scheduled())
    sleep_through(connection, hours=hours)
    ((before,),) = connection.execute("select now()").fetchall()
    found = trigger(stoker, scheduled())
    assert found.refusal is None
    assert found.due_at is not None
    assert timedelta() <= before - found.due_at < timedelta(minutes=5, seconds=5)
    missed, ran = slots(connection)
    assert missed[2:] == ("missed", "a later one was made good", None)
    assert (missed[1] - missed[0]) / timedelta(minutes=5) + 2 == pytest.approx(12 * hours, abs=1)
    assert ran == (found.due_at, found.due_at, "ran", None, found.fire)
    assert ran[0] - missed[1] == timedelta(minutes=5)
    assert trigger(stoker, scheduled()).idle


def test_a_slot_that_is_late_is_skipped_if_that_is_wanted(stoker: Database, connection: Connection) -> None:
    """R04, R07: within its grace it is fired, later it is missed; never nothing."""
    policy = scheduled(missed="skip", grace="10m")
    trigger(stoker, policy)
    sleep_through(connection, minutes=7)
    assert trigger(stoker, policy).fire
    sleep_through(connection, hours=2)
    policy = scheduled(missed="skip", grace="1ms")
    assert trigger(stoker, policy).idle
    assert [row[2] for row in slots(connection)][-1] == "missed"
    assert sum((row[1] - row[0]) / timedelta(minutes=5) + 1 for row in slots(connection)) in {25, 26}


def test_several_missed_slots_are_made_good_oldest_first(stoker: Database, connection: Connection) -> None:
    """At most as many as the policy says."""
    policy = scheduled(missed="all(max=3)")
    trigger(stoker, policy)
    sleep_through(connection, hours=1)
    fired = []
    while found := trigger(stoker, policy).due_at:
        fired.append(found)
    assert len(fired) == 3
    assert fired == sorted(fired)
    assert [row[2] for row in slots(connection)] == ["missed", "ran", "ran", "ran"]


def test_of_five_triggers_at_once_one_fires(database: str, connection: Connection) -> None:
    """R08: 40 slots, five triggers each: one fire a slot, four find nothing to do; each slot has one row."""
    own = [Database(Target(database)) for _ in range(5)]
    schedule, gate = scheduled(), threading.Barrier(5)
    trigger(own[0], schedule)

    def come(one: Database) -> list[Admission]:
        found = []
        for _ in range(40):
            if gate.wait(30) == 0:
                sleep_through(connection, minutes=5)
            gate.wait(30)
            found.append(trigger(one, schedule))
        return found

    with ThreadPoolExecutor(5) as pool:
        rounds = list(zip(*pool.map(come, own), strict=True))
    for found in rounds:
        assert [one.refusal for one in found] == [None] * 5
        assert sum(bool(one.fire) for one in found) == 1
        assert sum(bool(one.idle) for one in found) == 4
    assert [row[2] for row in slots(connection)].count("ran") == 40
    for one in own:
        one.close()


def test_an_overrun_is_recorded_or_waited_for(stoker: Database, connection: Connection) -> None:
    """R26: while the lane is busy the slot is skipped with the reason; or it stays due."""
    for overlap, expected in (("skip", ["skipped"]), ("wait", [])):
        policy = scheduled(name=overlap, overlap=overlap, lane=overlap)
        trigger(stoker, policy)
        busy = admit(stoker, ask(overlap, fires_per_day=None)).fire
        connection.execute("update stoker.schedules set since = since - interval '5 min' where schedule = %s", (overlap,))
        found = trigger(stoker, policy)
        states = connection.execute("select state, reason from stoker.slots where schedule = %s", (overlap,)).fetchall()
        assert [state for state, _ in states] == expected
        assert f"fire {busy}" in (states[0][1] if states else found.idle)
        close(stoker, busy)
        assert bool(trigger(stoker, policy).fire) == (overlap == "wait")


def test_a_closed_gate_is_the_reason(stoker: Database, connection: Connection) -> None:
    """The slot is skipped, and says why."""
    trigger(stoker, scheduled())
    sleep_through(connection, minutes=5)
    assert trigger(stoker, scheduled(), gate="repairs").refusal == "the gate is closed: repairs"
    assert [row[2:4] for row in slots(connection)] == [("skipped", "the gate is closed: repairs")]


def test_an_edited_rule_neither_loses_nor_doubles_a_slot(stoker: Database, connection: Connection) -> None:
    """What was due by the old rule is decided first; by the new one nothing is due that lies before the edit."""
    trigger(stoker, scheduled())
    sleep_through(connection, minutes=5)
    new = scheduled(cron="* * * * *")
    found = trigger(stoker, new)
    assert found.due_at is not None
    assert found.due_at.minute % 5 == 0
    assert trigger(stoker, new).idle
    assert connection.execute("select rule->>'cron' from stoker.schedules").fetchall() == [("* * * * *",)]
    sleep_through(connection, minutes=1)
    assert trigger(stoker, new).fire
    ((zone,),) = connection.execute("select rule->>'timezone' from stoker.schedules").fetchall()
    assert zone == "UTC"
    assert trigger(stoker, scheduled(cron="* * * * *", timezone="Europe/Berlin")).idle


def test_the_databases_clock_decides(stoker: Database, connection: Connection) -> None:
    """P12: due times are compared with it alone."""
    trigger(stoker, ScheduleSettings.of({"name": "s", "every": "1s"}))
    sleep_through(connection, seconds=1)
    found = trigger(stoker, ScheduleSettings.of({"name": "s", "every": "1s"}))
    ((now,),) = connection.execute("select clock_timestamp()").fetchall()
    assert found.due_at is not None
    assert found.due_at <= now
    assert found.due_at == datetime.fromtimestamp(int(found.due_at.timestamp()), UTC)


def test_a_lost_reply_is_one_slot_and_one_fire(stoker: Database, connection: Connection) -> None:
    """P2, P7: asked again under the same key, the same fire is found."""
    trigger(stoker, scheduled())
    sleep_through(connection, minutes=5)
    request = replace(ask("main", fires_per_day=None), schedule=scheduled(), key=str(uuid.uuid4()))
    first, second = admit(stoker, request), admit(stoker, request)
    assert (first.fire, first.refusal) == (second.fire, second.refusal)
    assert len(slots(connection)) == 1
