"""Speaking to a server that goes away, refuses, dawdles, or answers into a broken line."""

import itertools
import re
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.postgres import Cluster
from tests.sql.factory import fill, full_cycle
from tests.sql.proxy import REPLY, REQUEST, Proxy, proxied

from stoker.sql.database import CommitUnknownError, Database, DatabaseUnreachableError, Transaction, connect
from stoker.sql.migrate import known
from stoker.sql.target import Target

Connection = psycopg.Connection[Any]
TASK: dict[str, Any] = {
    "mode": "m", "version": 1, "priority": 0, "max_attempts": None, "payload": "{}", "available_at": None, "expires_at": None,
    "tags": None, "lane_key": None, "needs_approval": False, "key": None, "key_seconds": 0.0, "retry_terminal": False,
}  # fmt: skip
NEWEST = [(known()[-1].number,)]


@pytest.fixture
def proxy(database: str) -> Iterator[Proxy]:
    with proxied(database) as made:
        yield made


@pytest.fixture
def far(proxy: Proxy) -> Iterator[Database]:
    """The database through the proxy, connected."""
    made = Database(Target(proxy.url), patience_seconds=5.0)
    made.wait()
    yield made
    made.close()


def count(connection: Connection) -> int:
    row = connection.execute("select count(*) from stoker.tasks").fetchone()
    assert row is not None
    return int(row[0])


def terminate(stoker: Database, connection: Connection) -> None:
    """End the backend behind ``stoker``, and wait until it is gone."""
    with stoker.raw() as own:
        pid = own.info.backend_pid
    connection.execute("select pg_terminate_backend(%s, 5000)", (pid,))


def enqueue_in(tx: Transaction) -> int:
    return int(tx.run("enqueue_one", **TASK)[0][0])


def test_a_statement_after_its_backend_was_terminated_is_repeated(stoker: Database, connection: Connection) -> None:
    """R15: the connection looks open until it is used."""
    for _ in range(3):
        terminate(stoker, connection)
        assert stoker.run("newest_migration") == NEWEST


def test_nothing_is_done_twice_or_never_when_the_backend_is_terminated_between_statements(
    stoker: Database, connection: Connection
) -> None:
    """R15: a pipeline or a transaction that never began is begun again, or said to be unknown; it is never done twice."""
    for done in range(5):
        terminate(stoker, connection)
        try:
            stoker.flush(("enqueue_one", TASK))
        except CommitUnknownError:
            assert count(connection) == 2 * done
            stoker.flush(("enqueue_one", TASK))
        terminate(stoker, connection)
        stoker.in_transaction(enqueue_in, repeatable=True)
        assert count(connection) == 2 * done + 2


@pytest.mark.parametrize("lost", [REQUEST, REPLY])
@pytest.mark.parametrize("way", ["flush", "run_once"])
def test_what_may_not_be_repeated_is_said_to_be_unknown(
    proxy: Proxy, far: Database, connection: Connection, way: str, lost: str
) -> None:
    """P2: once in the database when the reply was lost, not at all when the request was; never twice."""
    proxy.lose(lost)
    with pytest.raises(CommitUnknownError):
        far.flush(("enqueue_one", TASK)) if way == "flush" else far.run_once("enqueue_one", **TASK)
    assert proxy.has_lost
    assert count(connection) == (1 if lost == REPLY else 0)
    assert far.run("newest_migration") == NEWEST


@pytest.mark.parametrize("lost", [REQUEST, REPLY])
def test_what_may_be_repeated_is_repeated_when_its_reply_is_lost(proxy: Proxy, far: Database, lost: str) -> None:
    """R15: nobody hears of it."""
    proxy.lose(lost)
    assert far.run("newest_migration") == NEWEST
    assert proxy.has_lost


@pytest.mark.parametrize("repeatable", [False, True])
def test_a_lost_commit_is_unknown_unless_the_work_may_be_repeated(
    proxy: Proxy, far: Database, connection: Connection, repeatable: bool
) -> None:
    """P2: the transaction is committed, and its caller does not know."""
    keys: list[int] = []

    def work(tx: Transaction) -> int:
        keys.append(enqueue_in(tx))
        if len(keys) == 1:
            proxy.lose(REPLY)
        return keys[-1]

    if repeatable:
        assert far.in_transaction(work, repeatable=True) == keys[1]
    else:
        with pytest.raises(CommitUnknownError):
            far.in_transaction(work)
    assert count(connection) == len(keys) == (2 if repeatable else 1)


@pytest.mark.parametrize("pipeline", [False, True])
def test_a_flush_whose_later_statement_breaks_leaves_nothing_of_the_earlier(
    database: str, connection: Connection, pipeline: bool
) -> None:
    """R18: one transaction; and the connection is good for the next, prepared statements included."""
    stoker = Database(Target(database, pipeline=pipeline))
    for _ in range(4):
        with pytest.raises(psycopg.errors.InvalidParameterValue):
            stoker.flush(("enqueue_one", TASK), ("enqueue_one", {**TASK, "version": 0}))
    assert count(connection) == 0
    stoker.flush(("enqueue_one", TASK), ("enqueue_one", TASK))
    assert count(connection) == 2
    stoker.close()


def test_a_deadlock_is_tried_again_until_both_are_through(database: str, connection: Connection) -> None:
    """R15, R47: the server ends one of them; it comes back, and that is counted."""
    connection.execute("create table public.pair as select n, 0 as times from generate_series(1, 2) n")
    gate = threading.Barrier(2)
    rounds = [0, 0]

    def cross(which: int) -> None:
        own = Database(Target(database))

        def work(tx: Transaction) -> None:
            rounds[which] += 1
            for place in (which, 1 - which):
                tx.connection.execute("update public.pair set times = times + 1 where n = %s", (place + 1,))
                if place == which and sum(rounds) <= 2:
                    gate.wait()

        own.in_transaction(work)
        retries.append(own.retries)
        own.close()

    retries: list[int] = []
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(cross, range(2)))
    assert sum(retries) == sum(rounds) - 2 > 0
    assert connection.execute("select times from public.pair").fetchall() == [(2,), (2,)]


def test_a_serialization_failure_is_tried_again_from_the_start(stoker: Database, connection: Connection) -> None:
    """The work sees what the other wrote."""
    connection.execute("create table public.counter as select 0 as n")
    seen: list[int] = []

    def work(tx: Transaction) -> None:
        tx.connection.execute("set transaction isolation level repeatable read")
        ((n,),) = tx.connection.execute("select n from public.counter").fetchall()
        seen.append(n)
        if len(seen) == 1:
            connection.execute("update public.counter set n = 10")
        tx.connection.execute("update public.counter set n = %s", (n + 1,))

    stoker.in_transaction(work)
    assert seen == [0, 10]
    assert connection.execute("select n from public.counter").fetchall() == [(11,)]


def test_a_lock_that_is_not_to_be_had_is_given_up_in_bounded_time(database: str, connection: Connection) -> None:
    """P10: nothing waits for ever, and when the lock is free the next try goes through."""
    fill(connection, 1)
    own = Database(Target(database, lock_timeout=0.1), patience_seconds=0.5)
    with psycopg.connect(database) as holder:
        holder.execute("lock table stoker.later")
        began = time.monotonic()
        with pytest.raises(DatabaseUnreachableError, match="lock timeout"):
            own.run("promote_due", limit=1)
        assert time.monotonic() - began < 5
    assert own.run("promote_due", limit=1) == [(0,)]
    own.close()


def test_a_statement_that_is_wrong_is_not_tried_again(database: str) -> None:
    """It would be wrong again; and the connection is good for the next."""
    own = Database(Target(database, "nowhere"), patience_seconds=60.0)
    began = time.monotonic()
    for _ in range(2):
        with pytest.raises(psycopg.errors.UndefinedTable):
            own.run("newest_migration")
    assert time.monotonic() - began < 5
    own.close()


def test_what_the_work_raises_undoes_the_transaction_and_comes_out(stoker: Database, connection: Connection) -> None:
    """The caller's own exception is not the database's affair."""

    def work(tx: Transaction) -> None:
        enqueue_in(tx)
        raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        stoker.in_transaction(work)
    assert count(connection) == 0


SECRET = "hunter2"
URLS = [
    f"postgresql://u:{SECRET}@127.0.0.1:1/d",
    f"host=127.0.0.1 port=1 dbname=d user=u password={SECRET}",
    f"postgresql://u:{SECRET}%zz@127.0.0.1:1/d",
    f"postgresql://u:{SECRET}/x@127.0.0.1:1/d",
    f"postgresql://u:x@{SECRET}@127.0.0.1:1/d",
    f"postgresql://u:x#{SECRET}@127.0.0.1:1/d?nonsense={SECRET}",
    f"postgresql//u:{SECRET}@127.0.0.1:1/d",
    f"host=127.0.0.1 port=1 password=x {SECRET}",
    f"postgresql://u:x?{SECRET}@127.0.0.1:1/d",
]


@pytest.mark.parametrize("url", URLS, ids=range(len(URLS)))
def test_an_unreachable_server_is_said_in_bounded_time_without_the_password(url: str) -> None:
    """R15, P9: also when the URL was mistyped, so that a part of the password stands where the host should."""
    began = time.monotonic()
    with pytest.raises(DatabaseUnreachableError) as refused:
        Database(Target(url), patience_seconds=0.3).run("newest_migration")
    assert time.monotonic() - began < 5
    assert SECRET not in str(refused.value)
    assert len(str(refused.value)) > 20


def test_a_server_that_never_answers_is_given_up_in_bounded_time() -> None:
    """R15: it takes the connection, and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        began = time.monotonic()
        with pytest.raises(DatabaseUnreachableError):
            Database(Target(f"postgresql://u@127.0.0.1:{port}/d", connect_timeout=0.1), patience_seconds=0.1).wait()
        assert time.monotonic() - began < 10


def test_a_server_that_comes_back_within_the_patience_is_waited_for(cluster: Cluster, stoker: Database) -> None:
    """R15: the statement is late, and that is all."""
    stoker.patience_seconds = 30.0
    assert stoker.run("newest_migration") == NEWEST
    cluster.stop()
    with ThreadPoolExecutor(1) as pool:
        late = pool.submit(stoker.run, "newest_migration")
        cluster.start()
        assert late.result(timeout=30) == NEWEST


def test_a_server_that_stays_away_is_given_up_when_the_patience_is_over(cluster: Cluster, stoker: Database) -> None:
    """R15: and with it back, the same object goes on."""
    stoker.patience_seconds = 0.3
    stoker.wait()
    cluster.stop()
    with pytest.raises(DatabaseUnreachableError) as refused:
        stoker.run("newest_migration")
    assert not isinstance(refused.value, CommitUnknownError)
    cluster.start()
    assert stoker.run("newest_migration") == NEWEST


@pytest.mark.parametrize("prepared", [False, True])
@pytest.mark.parametrize("options", [False, True])
def test_a_full_cycle_works_behind_whatever_the_pooler_allows(cluster: Cluster, prepared: bool, options: bool) -> None:
    """R18: without prepared statements, without options at the start of a session."""
    name = cluster.create()
    full_cycle(cluster.url(name), "stoker", prepared_statements=prepared, session_options=options)
    cluster.drop(name)


@pytest.mark.parametrize("wanted", [False, True])
def test_statements_are_prepared_and_sessions_bounded_only_if_wanted(database: str, wanted: bool) -> None:
    """R18: a setting that is there has its effect."""
    target = Target(database, prepared_statements=wanted, session_options=wanted, statement_timeout=7.0, lock_timeout=3.0)
    with connect(target, "a name") as own:
        for _ in range(5):
            own.execute("select %s::int", (1,))
        assert bool(own.execute("select count(*) from pg_prepared_statements").fetchall()[0][0]) == wanted
        for setting, value in (("statement_timeout", "7s"), ("lock_timeout", "3s"), ("search_path", "pg_catalog")):
            shown = own.execute(f"show {setting}").fetchall()[0][0]
            assert (shown == value) == wanted
        assert own.execute("show application_name").fetchall() == [("a name",)]


def test_many_threads_share_one_connection_without_harm(stoker: Database) -> None:
    """One statement at a time, from any thread."""
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda n: stoker.flush(("newest_migration", {}), ("installation", {}))[0], range(100)))
    assert found == [NEWEST] * 100


def test_no_url_is_shown_by_the_words_of_an_error(tmp_path: Path) -> None:
    """P9: the server's words name the socket, and that is enough."""
    with pytest.raises(DatabaseUnreachableError) as refused:
        connect(Target(f"postgresql://user:{SECRET}@/d?host={tmp_path}"))
    assert re.search("No such file or directory", str(refused.value))
    assert "postgresql:" not in str(refused.value)


def test_a_statement_that_times_out_is_tried_ever_more_seldom_and_recovers_by_itself(
    database: str, connection: Connection
) -> None:
    """R44: not at once and again at once: the pauses grow, with jitter; when the server can, it goes on."""
    own = Database(Target(database, statement_timeout=0.05), patience_seconds=20.0)
    attempts: list[float] = []

    def work(tx: Transaction) -> None:
        attempts.append(time.monotonic())
        tx.connection.execute("select pg_sleep(%s)", (1.0 if time.monotonic() - attempts[0] < 4 else 0.0,))

    own.in_transaction(work)
    pauses = [later - earlier for earlier, later in itertools.pairwise(attempts)]
    assert 4 < len(attempts) < 25
    assert own.retries == len(attempts) - 1
    assert max(pauses[len(pauses) // 2 :]) > 4 * min(pauses)
    assert max(pauses) < 2.5
    own.close()
    assert connection.info.transaction_status == 0
