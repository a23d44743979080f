"""Since when a task could be claimed, and which waits for longest."""

from collections.abc import Callable, Iterator

import pytest
from tests.sql.factory import claim, ended, fill, open_fire, register, release, settle
from tests.watchdog.scenes import Connection

from stoker.sql.database import Database
from stoker.sql.target import Target
from stoker.watchdog.facts import Away, gather
from stoker.watchdog.judge import judge
from stoker.watchdog.settings import WatchdogSettings

TWO_HOURS = "update stoker.ready set ready_since = ready_since - interval '2 h'"
Look = Callable[[], list[str]]


@pytest.fixture
def stoker(database: str) -> Iterator[Database]:
    made = Database(Target(database))
    yield made
    made.close()


@pytest.fixture
def look(stoker: Database) -> Look:
    settings = WatchdogSettings.of({"oldest_task": "1h"})
    return lambda: [one.cause for one in judge(gather(stoker, settings, Away(0.0, 0.0), "me"), settings)]


def old(connection: Connection, *ids: int) -> None:
    """They were put in two days ago."""
    connection.execute("update stoker.tasks set created_at = now() - interval '2 days' where id = any(%s)", (list(ids),))


def wait_for_later(connection: Connection, ids: list[int], due: str) -> None:
    """They stand in later, due at that time."""
    connection.execute("delete from stoker.ready")
    connection.execute(
        "insert into stoker.later (mode, version, priority, lo, hi, available_at)"
        " select 'm', 1, 0, id, id, now() + %s::interval from unnest(%s::bigint[]) as id",
        (due, ids),
    )


def test_a_task_waits_from_when_it_was_due_not_from_when_it_was_put_in(
    stoker: Database, connection: Connection, look: Look
) -> None:
    """P8: enqueued for tomorrow, snoozed, retried or approved late; that nobody made it claimable in time counts as waiting."""
    ids = fill(connection, 1)
    old(connection, *ids)
    wait_for_later(connection, ids, "1 h")
    assert look() == []
    connection.execute("update stoker.later set available_at = now() - interval '50 min'")
    assert look() == []
    connection.execute("update stoker.later set available_at = now() - interval '70 min'")
    assert look() == ["oldest m"]
    assert stoker.run("promote_due", limit=10) == [(1,)]
    assert look() == ["oldest m"]
    assert stoker.run("backlog")[0][4] == pytest.approx(70 * 60, abs=60)
    connection.execute("delete from stoker.ready")
    connection.execute("select stoker.place(%s, 0, null)", (ids[0],))
    assert look() == []
    assert stoker.run("backlog")[0][4] == pytest.approx(0, abs=60)


def test_what_is_left_of_a_span_keeps_its_instant_and_what_comes_back_begins_anew(
    stoker: Database, connection: Connection, look: Look
) -> None:
    """A claim cuts it, a person takes one out of its middle; what a lost worker held, or was given back, has not waited yet."""
    ids = fill(connection, 10, span=10)
    connection.execute(TWO_HOURS)
    worker = register(stoker, open_fire(stoker))
    claimed = claim(stoker, worker, 3)
    assert look() == ["oldest m"]
    connection.execute("select stoker.take_out(%s)", (ids[6],))
    rows = connection.execute("select lo, hi, ready_since < now() - interval '1 h' from stoker.ready order by lo").fetchall()
    assert rows == [(ids[3], ids[5], True), (ids[7], ids[9], True)]
    connection.execute("delete from stoker.ready")
    bad, free = [ended(ids[0], "snooze", delay=-60.0)], {"free_los": [ids[1]], "free_his": [ids[1]], "free_attempts": [0]}
    stay = {"left_los": [ids[2]], "left_his": [ids[2]], "left_attempts": [0]}
    assert settle(stoker, claimed.token, ended=bad, **free, **stay)
    assert release(stoker, worker) is not None
    stoker.run("promote_due", limit=10)
    assert look() == []
    assert connection.execute("select count(*)::int from stoker.ready").fetchall() == [(3,)]


def test_the_oldest_is_found_behind_what_is_new_and_not_among_what_nobody_is_to_claim(
    connection: Connection, look: Look, stoker: Database
) -> None:
    """Of each priority, version and mode; what is paused or expired waits for nobody. Not asked for, it is not looked for."""
    ids = fill(connection, 1, mode="a", priority=5)
    fill(connection, 1, mode="b", version=2)
    fill(connection, 1, mode="c")
    connection.execute(TWO_HOURS)
    fill(connection, 300, mode="a", priority=-5)
    fill(connection, 300, mode="b", version=1)
    wait_for = "insert into stoker.later (mode, version, priority, lo, hi, available_at) values ('d', 1, 0, %s, %s, %s)"
    connection.execute(wait_for, (ids[0], ids[0], "2026-01-01"))
    assert look() == ["oldest a", "oldest b", "oldest c", "oldest d"]
    connection.execute("insert into stoker.paused (mode, actor, reason) values ('b', 'ann', 'repairs')")
    connection.execute("update stoker.ready set expires_at = now() - interval '1 s' where mode = 'c'")
    assert look() == ["oldest a", "oldest d"]
    off = WatchdogSettings.of({})
    assert gather(stoker, off, Away(0.0, 0.0), "me").oldest == ()


def test_what_expired_at_the_same_time_hides_nothing(connection: Connection, look: Look) -> None:
    """Due at one time and earlier, some to be claimed no more: the one that still waits is found among them."""
    ids = fill(connection, 60)
    wait_for_later(connection, ids, "-2 h")
    connection.execute("update stoker.later set available_at = available_at - interval '1 h' where lo < %s", (ids[10],))
    connection.execute("update stoker.later set expires_at = now() - interval '1 s'")
    assert look() == []
    connection.execute("update stoker.later set expires_at = null where lo = %s", (ids[40],))
    assert look() == ["oldest m"]
