"""Putting tasks in: all of a call or none, ids in the order given, spans of one kind, refusals that name what is wrong."""

import json
import math
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psycopg.pq import TransactionStatus
from tests.sql.oracle import Counts, check

from stoker.sql.bulk import neighbours
from stoker.sql.enqueue import Door, EnqueueError, NewTask, enqueue, enqueue_many, read_lines
from stoker.sql.partitions import PARTITION_IDS
from stoker.sql.query import load

Connection = psycopg.Connection[Any]
DOOR = Door()
SOON = timedelta(hours=1)


def put(connection: Connection, *lines: str | bytes, door: Door = DOOR, mode: str | None = None) -> list[int]:
    return enqueue_many(connection, read_lines(lines, mode=mode), door)


def spans(connection: Connection, table: str = "ready") -> list[tuple[int, int]]:
    return connection.execute(f"select lo, hi from stoker.{table} order by lo").fetchall()


def one(connection: Connection, task: NewTask, door: Door) -> Any:
    return enqueue(connection, task, door)


def many(connection: Connection, task: NewTask, door: Door) -> Any:
    return enqueue_many(connection, [NewTask("m"), task], door)


def test_one_task_is_claimable_at_once(connection: Connection) -> None:
    """P1: with everything that was asked of it."""
    task = enqueue(connection, NewTask("m", {"a": [1]}, priority=-4, version=2, max_attempts=7), DOOR)
    row = connection.execute("select mode, priority, version, max_attempts, payload from stoker.tasks where id = %s", (task,))
    assert row.fetchone() == ("m", -4, 2, 7, {"a": [1]})
    assert spans(connection) == [(task, task)]
    assert check(connection) == Counts(ready=1)


def test_many_tasks_stand_in_spans_no_longer_than_the_door_says(connection: Connection) -> None:
    """A span of a thousand ids is one row."""
    ids = enqueue_many(connection, [NewTask("m")] * 25, Door(span_length=10))
    assert ids == list(range(1, 26))
    assert spans(connection) == [(1, 10), (11, 20), (21, 25)]
    assert check(connection) == Counts(ready=25)


def test_nothing_given_is_nothing_done(connection: Connection) -> None:
    """No id is spent on it."""
    assert enqueue_many(connection, [], DOOR) == []
    assert enqueue(connection, NewTask("m"), DOOR) == 1


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.tuples(st.sampled_from("ab"), st.sampled_from([1, 2]), st.integers(-2, 2), st.sampled_from([None, 0, 3600, 7200])),
        max_size=40,
    )
)
def test_ids_come_back_in_the_order_given_whatever_is_mixed(
    connection: Connection, kinds: list[tuple[str, int, int, int | None]]
) -> None:
    """P1: each id is that of the task in the same place; the spans hold one kind each."""
    now = datetime.now(UTC) - timedelta(seconds=5)
    times = [None if delay is None else now + timedelta(seconds=delay) for *_, delay in kinds]
    tasks = [
        NewTask(mode, place, priority, version, available_at=at)
        for place, ((mode, version, priority, _), at) in enumerate(zip(kinds, times, strict=True))
    ]
    before = check(connection)
    ids = enqueue_many(connection, tasks, Door(span_length=3))
    for task_id, task in zip(ids, tasks, strict=True):
        row = connection.execute("select mode, version, priority, payload from stoker.tasks where id = %s", (task_id,))
        assert row.fetchone() == (task.mode, task.version, task.priority, task.payload)
        later = connection.execute("select available_at from stoker.later where %s between lo and hi", (task_id,)).fetchone()
        assert later == ((task.available_at,) if task.available_at and task.available_at > now + SOON / 2 else None)
    after = check(connection)
    assert after.ready + after.later == before.ready + before.later + len(ids)


@pytest.mark.parametrize("put_in", [one, many])
def test_a_task_for_later_waits_for_its_time(connection: Connection, put_in: Callable[..., Any]) -> None:
    """By the database's clock; a time that has passed is now."""
    at = datetime.now(timezone(timedelta(hours=5))) + SOON
    put_in(connection, NewTask("m", available_at=at), DOOR)
    assert connection.execute("select available_at from stoker.later").fetchall() == [(at,)]
    put_in(connection, NewTask("m", available_at=datetime(1970, 1, 1, tzinfo=UTC)), DOOR)
    assert check(connection).later == 1


BAD: dict[str, tuple[NewTask, str]] = {
    "mode is empty": (NewTask(""), "mode must be"),
    "mode is too long": (NewTask("m" * 64), "mode must be"),
    "mode holds NUL": (NewTask("a\0"), "mode must be"),
    "mode holds a lone surrogate": (NewTask("\ud800"), "mode must be"),
    "mode is a number": (NewTask(7), "mode must be"),  # type: ignore[arg-type]
    "mode is a list": (NewTask(["m"]), "mode must be"),  # type: ignore[arg-type]
    "mode is nothing": (NewTask(None), "mode must be"),  # type: ignore[arg-type]
    "payload holds NUL": (NewTask("m", "\0"), "NUL"),
    "payload is NaN": (NewTask("m", math.nan), "NaN or an infinity"),
    "payload is infinite": (NewTask("m", -math.inf), "NaN or an infinity"),
    "payload holds a lone surrogate": (NewTask("m", ["\udfff"]), "lone surrogate"),
    "payload is too long": (NewTask("m", "x" * (1 << 20)), "above the limit"),
    "payload is no JSON": (NewTask("m", {1, 2}), "not JSON"),
    "priority is text": (NewTask("m", priority="1"), "priority must be a whole number"),  # type: ignore[arg-type]
    "priority is a fraction": (NewTask("m", priority=1.0), "priority must be a whole number"),  # type: ignore[arg-type]
    "priority is true": (NewTask("m", priority=True), "priority must be a whole number"),
    "priority is too large": (NewTask("m", priority=2**31), "priority must be a whole number"),
    "priority is nothing": (NewTask("m", priority=None), "priority must be a whole number"),  # type: ignore[arg-type]
    "version is zero": (NewTask("m", version=0), "version must be a whole number from 1"),
    "max_attempts is zero": (NewTask("m", max_attempts=0), "max_attempts must be a whole number from 1"),
    "time is naive": (NewTask("m", available_at=datetime(2030, 1, 1)), "available_at has no offset"),
    "time is text": (NewTask("m", available_at="2030-01-01T00:00:00Z"), "available_at is not"),  # type: ignore[arg-type]
    "time is beyond the calendar": (
        NewTask("m", available_at=datetime(9999, 12, 31, 23, tzinfo=timezone(-timedelta(hours=9)))), "available_at is beyond",
    ),
}  # fmt: skip


@pytest.mark.parametrize("put_in", [one, many])
@pytest.mark.parametrize("what", BAD)
def test_what_cannot_be_accepted_is_refused_at_the_door(connection: Connection, what: str, put_in: Callable[..., Any]) -> None:
    """R64: with its reason, before the database is asked, and nothing of the call is enqueued."""
    task, reason = BAD[what]
    with pytest.raises(EnqueueError, match=reason) as refused:
        put_in(connection, task, DOOR)
    assert refused.value.line == (2 if put_in is many else None)
    assert check(connection) == Counts()
    assert enqueue(connection, NewTask("m"), DOOR) == 1


@pytest.mark.parametrize("broken", [NewTask("m", math.nan), NewTask("m", "x" * (1 << 20)), NewTask("m", {1})])
def test_a_payload_found_broken_when_rows_are_under_way_takes_all_of_its_call_back(
    database: str, connection: Connection, broken: NewTask
) -> None:
    """P1: what the caller did before stands, and the first broken task is named, not the first that was come upon."""
    tasks = [NewTask("m", n, n % 2) for n in range(15_000)]
    tasks[14_000] = tasks[14_501] = broken
    with psycopg.connect(database) as caller:
        enqueue(caller, NewTask("m"), DOOR)
        with pytest.raises(EnqueueError, match=r"^line 14001: "):
            enqueue_many(caller, tasks, DOOR)
        enqueue(caller, NewTask("m"), DOOR)
    assert check(connection) == Counts(ready=2)


def test_the_first_broken_task_is_named_whatever_is_wrong_with_it(connection: Connection) -> None:
    """Columns are looked at before payloads."""
    with pytest.raises(EnqueueError, match=r"^line 2: payload"):
        enqueue_many(connection, [NewTask("m"), NewTask("m", math.nan), NewTask("m", priority=True)], DOOR)
    with pytest.raises(EnqueueError, match=r"^line 2: priority"):
        enqueue_many(connection, [NewTask("m", priority=1), NewTask("m", priority=True), NewTask("m", math.nan)], DOOR)


def test_tasks_are_not_made_while_a_transaction_is_open(database: str) -> None:
    """P10: whoever reads a slow source, or from this very connection, holds nothing up."""
    with psycopg.connect(database, autocommit=True) as own:

        def slow() -> Iterator[NewTask]:
            for n in range(12_000):
                assert own.info.transaction_status == TransactionStatus.IDLE
                yield NewTask("m", n)

        assert len(enqueue_many(own, slow(), DOOR)) == 12_000


def test_rows_arrive_as_they_were_given_whatever_copy_makes_of_them(connection: Connection) -> None:
    """Backslashes, tabs and line ends, in modes and payloads; attempts of one's own among those of the mode."""
    wild = "a\\b\tc\nd\re\bf\fg\vh\\N\\.\u00e9\U0001f600"
    tasks = [NewTask(mode, wild, max_attempts=limit) for mode in (wild, "\\N", "m") for limit in (None, 3, None)]
    tasks.append(NewTask("m", "plain"))
    ids = enqueue_many(connection, tasks, DOOR)
    rows = connection.execute("select mode, payload, max_attempts from stoker.tasks order by array_position(%s, id)", (ids,))
    assert rows.fetchall() == [(task.mode, task.payload, task.max_attempts) for task in tasks]
    assert sorted(hi - lo + 1 for lo, hi in spans(connection)) == [3, 3, 4]


def test_an_unknown_mode_is_refused_and_the_known_ones_are_named(connection: Connection) -> None:
    """P11: what nobody could run is not let in."""
    door = Door(modes=frozenset({"resize", "crop"}))
    with pytest.raises(EnqueueError, match=r"unknown mode 'resise'.*resize"):
        enqueue(connection, NewTask("resise"), door)
    with pytest.raises(EnqueueError, match=r"unknown mode 'x'.*crop, resize"):
        enqueue(connection, NewTask("x"), door)
    with pytest.raises(EnqueueError, match="line 2: unknown mode"):
        enqueue_many(connection, [NewTask("crop"), NewTask("resise")], door)
    assert enqueue(connection, NewTask("crop"), door) == 1


def test_json_lines_say_everything_a_task_has(connection: Connection) -> None:
    """One object a line, text or bytes; a byte order mark and empty lines are passed over."""
    ids = put(
        connection,
        b'\xef\xbb\xbf{"mode": "m", "payload": {"n": 1}, "priority": -1, "version": 2, "max_attempts": 4}\n',
        "\n",
        '{"mode": "m"}\r\n',
        '{"mode": "m", "available_at": "2999-01-01T00:00:00+01:00"}',
        '{"mode": "m", "delay": "1h"}',
    )
    rows = connection.execute("select payload, priority, version, max_attempts from stoker.tasks where id = %s", (ids[0],))
    assert rows.fetchone() == ({"n": 1}, -1, 2, 4)
    assert connection.execute("select payload, priority from stoker.tasks where id = %s", (ids[1],)).fetchone() == (None, 0)
    times = connection.execute("select lo, available_at from stoker.later order by available_at desc").fetchall()
    assert times[0] == (ids[2], datetime(2998, 12, 31, 23, tzinfo=UTC))
    assert times[1][0] == ids[3]
    assert abs(times[1][1] - datetime.now(UTC) - SOON) < timedelta(minutes=1)


def test_with_a_mode_given_a_line_is_a_bare_payload(connection: Connection) -> None:
    """Any JSON value, also one that looks like a task."""
    put(connection, '{"mode": "x"}', "3", "null", '"text"', mode="m")
    rows = connection.execute("select mode, payload from stoker.tasks order by id").fetchall()
    assert rows == [("m", {"mode": "x"}), ("m", 3), ("m", None), ("m", "text")]


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        ("{", "not JSON"),
        ("[]", "expected an object"),
        ("7", "expected an object"),
        ('{"payload": 1}', "expected an object"),
        ('{"mode": "m", "prio": 1}', 'unknown key "prio"; known: available_at, delay'),
        ('{"mode": 3}', "mode must be"),
        ('{"mode": "\\ud800"}', "mode must be"),
        ('{"mode": "m", "payload": NaN}', "NaN is no JSON number"),
        ('{"mode": "m", "payload": [-Infinity]}', "-Infinity is no JSON number"),
        ('{"mode": "m", "payload": 1e400}', "beyond the range of a double"),
        ('{"mode": "m", "payload": "\\u0000"}', "NUL"),
        ('{"mode": "m", "payload": "\\ud800"}', "lone surrogate"),
        ('{"mode": "m", "payload": ' + "[" * 100_000 + "]" * 100_000 + "}", "nested deeper"),
        (json.dumps({"mode": "m", "payload": "x" * (1 << 20)}), "above the limit"),
        ('{"mode": "m", "priority": 1.5}', "priority must be a whole number"),
        ('{"mode": "m", "priority": true}', "priority must be a whole number"),
        ('{"mode": "m", "priority": null}', "priority must be a whole number"),
        ('{"mode": "m", "available_at": "2030-01-01T00:00:00"}', "has no offset"),
        ('{"mode": "m", "available_at": "tomorrow"}', "not an ISO 8601 time"),
        ('{"mode": "m", "available_at": 5}', "not an ISO 8601 time"),
        ('{"mode": "m", "delay": 5}', "not a duration"),
        ('{"mode": "m", "delay": "-1h"}', "not a duration"),
        ('{"mode": "m", "delay": "1h", "available_at": "2030-01-01T00:00:00Z"}', "give available_at or delay, not both"),
        ('{"mode": "m", "expires_in": "1h", "expires_at": "2030-01-01T00:00:00Z"}', "give expires_at or expires_in, not both"),
        ('{"mode": "m", "key_for": "1d"}', "key_for needs key: it says"),
        ('{"mode": "m", "available_at": "9998-12-31T23:30:00-05:00"}', "beyond the years 2 to 9998, in UTC"),
        ('{"mode": "m", "expires_at": "0002-01-01T00:30:00+05:00"}', "beyond the years 2 to 9998, in UTC"),
        (b'{"mode": "\xff"}', "not UTF-8"),
    ],
    ids=range(28),
)
def test_a_broken_line_is_named_by_its_number_and_nothing_is_half_enqueued(
    connection: Connection, broken: str | bytes, reason: str
) -> None:
    """R64: empty lines before it count, as they do in an editor."""
    good = '{"mode": "m"}'
    with pytest.raises(EnqueueError, match=f"^line 5: .*{reason}") as refused:
        put(connection, good, "", "  \n", good, broken, good)
    assert refused.value.line == 5
    assert len(str(refused.value)) < 300
    assert check(connection) == Counts()


def test_a_refusal_after_empty_lines_names_the_line_also_when_only_the_door_knows(connection: Connection) -> None:
    """An unknown mode is found when the line has long been read."""
    with pytest.raises(EnqueueError, match=r"^line 4: unknown mode"):
        put(connection, "", "", '{"mode": "m"}', '{"mode": "n"}', door=Door(modes=frozenset({"m"})))


def test_a_call_that_breaks_in_the_database_leaves_nothing(connection: Connection) -> None:
    """P1: tasks without a place would be in limbo; both are of one transaction."""
    connection.execute("alter table stoker.ready add constraint broken check (lo < 5)")
    with pytest.raises(psycopg.errors.CheckViolation):
        enqueue_many(connection, [NewTask("m")] * 10, Door(span_length=2))
    with pytest.raises(psycopg.errors.CheckViolation):
        enqueue(connection, NewTask("m"), DOOR)
    assert check(connection) == Counts()


def test_an_enqueue_in_the_callers_transaction_stands_or_falls_with_it(database: str, connection: Connection) -> None:
    """A task and the row it is about are committed together."""
    with psycopg.connect(database) as caller:
        enqueue(caller, NewTask("m"), DOOR)
        enqueue_many(caller, [NewTask("m")] * 3, DOOR)
        assert check(connection) == Counts()
        caller.rollback()
        assert check(connection) == Counts()
        enqueue_many(caller, [NewTask("m")] * 3, DOOR)
    assert check(connection) == Counts(ready=3)


def test_loaders_that_interleave_never_make_a_span_over_foreign_ids(database: str, connection: Connection) -> None:
    """P1: spans are islands over the ids that the transaction took itself."""
    gate = threading.Barrier(5)

    def pour(_: int) -> int:
        with psycopg.connect(database, autocommit=True) as own:
            gate.wait()
            return sum(len(enqueue_many(own, [NewTask("m")] * 500, DOOR)) for _ in range(4))

    def disturb() -> int:
        with psycopg.connect(database, autocommit=True) as own:
            gate.wait()
            return len([enqueue(own, NewTask("m"), DOOR) for _ in range(100)])

    with ThreadPoolExecutor(5) as pool:
        alone = pool.submit(disturb)
        total = sum(pool.map(pour, range(4))) + alone.result()
    assert check(connection) == Counts(ready=total)


def test_ids_that_another_loader_took_in_between_split_the_span(connection: Connection) -> None:
    """The reproduction: every fifth id of the sequence goes to somebody else."""
    connection.execute(
        "create function public.disturbed(s regclass) returns bigint language sql volatile as"
        " $$ select case when nextval(s) % 5 = 0 then nextval(s) else currval(s) end $$"
    )
    taken = load("take_ids", "stoker").replace("nextval('", "public.disturbed('")
    ((lo, hi, ids),) = connection.execute(taken, {"count": 10}).fetchall()
    assert neighbours(lo, hi, ids) == [(1, 4), (6, 9), (11, 12)]


@pytest.mark.parametrize("length", [1000, 7])
def test_no_span_crosses_a_partitions_border_or_the_length(connection: Connection, length: int) -> None:
    """A partition is dropped whole, so no span may reach into another."""
    connection.execute("select setval('stoker.task_ids', %s)", (PARTITION_IDS - 10,))
    ids = enqueue_many(connection, [NewTask("m")] * 30, Door(span_length=length))
    assert (ids[0], ids[-1]) == (PARTITION_IDS - 9, PARTITION_IDS + 20)
    found = spans(connection)
    assert max(hi - lo + 1 for lo, hi in found) <= length
    assert (PARTITION_IDS - 1) in {hi for _, hi in found}
    assert check(connection) == Counts(ready=30)
