"""What the door in Python refuses, the door in SQL refuses too; and what neither can see, a runner says clearly."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest
from tests.sql.oracle import Counts, check

from stoker.sql.database import Database
from stoker.sql.enqueue import Door, EnqueueError, NewTask, enqueue, enqueue_many

Connection = psycopg.Connection[Any]
YEARS = {"early": datetime(1, 1, 1, tzinfo=UTC), "late": datetime(9999, 6, 1, tzinfo=UTC)}


@dataclass(frozen=True, slots=True)
class Bad:
    """What one asks for in Python, and the same in SQL: the arguments after the mode and the payload."""

    task: NewTask
    arguments: str = ""
    mode: str = "'m'"
    payload: str = "'1'"


def deep(levels: int) -> Any:
    value: Any = []
    for _ in range(levels - 1):
        value = [value]
    return value


BAD = {
    "no mode": Bad(NewTask(None), mode="null"),  # type: ignore[arg-type]
    "mode is empty": Bad(NewTask(""), mode="''"),
    "mode is too long": Bad(NewTask("m" * 64), mode=f"'{'m' * 64}'"),
    "mode holds NUL": Bad(NewTask("\0"), mode="E'\\x00'"),
    "mode is no text": Bad(NewTask("\ud800"), mode="E'\\uD800'"),
    "version is zero": Bad(NewTask("m", version=0), "version => 0"),
    "version is too large": Bad(NewTask("m", version=2**31), "version => 2147483648"),
    "max_attempts is zero": Bad(NewTask("m", max_attempts=0), "max_attempts => 0"),
    "max_attempts is negative": Bad(NewTask("m", max_attempts=-1), "max_attempts => -1"),
    "priority is too large": Bad(NewTask("m", priority=2**31), "priority => 2147483648"),
    "priority is too small": Bad(NewTask("m", priority=-(2**31) - 1), "priority => -2147483649"),
    "many tags": Bad(NewTask("m", tags=("t",) * 21), "tags => array_fill('t'::text, array[21])"),
    "an empty tag": Bad(NewTask("m", tags=("",)), "tags => array['']"),
    "a long tag": Bad(NewTask("m", tags=("t" * 101,)), "tags => array[repeat('t', 101)]"),
    "a tag that is nothing": Bad(NewTask("m", tags=("a", None)), "tags => array['a', null]"),  # type: ignore[arg-type]
    "tags in tags": Bad(NewTask("m", tags=(("a",),)), "tags => array[array['a']]"),  # type: ignore[arg-type]
    "key is empty": Bad(NewTask("m", key=""), "key => ''"),
    "key is too long": Bad(NewTask("m", key="k" * 201), "key => repeat('k', 201)"),
    "window is negative": Bad(NewTask("m", key="k", key_seconds=-1.0), "key => 'k', key_seconds => -1"),
    "window is no number": Bad(NewTask("m", key="k", key_seconds=float("nan")), "key => 'k', key_seconds => 'NaN'"),
    "window is endless": Bad(NewTask("m", key="k", key_seconds=float("inf")), "key => 'k', key_seconds => 'Infinity'"),
    "opened again without a key": Bad(NewTask("m", retry_terminal=True), "retry_terminal => true"),
    "lane_key is empty": Bad(NewTask("m", lane_key=""), "lane_key => ''"),
    "lane_key is too long": Bad(NewTask("m", lane_key="k" * 201), "lane_key => repeat('k', 201)"),
    "available before the calendar": Bad(NewTask("m", available_at=YEARS["early"]), "available_at => '0001-01-01Z'"),
    "available after the calendar": Bad(NewTask("m", available_at=YEARS["late"]), "available_at => '9999-06-01Z'"),
    "available never": Bad(NewTask("m", available_at="infinity"), "available_at => 'infinity'"),  # type: ignore[arg-type]
    "available for ever": Bad(NewTask("m", available_at="-infinity"), "available_at => '-infinity'"),  # type: ignore[arg-type]
    "expires after the calendar": Bad(NewTask("m", expires_at=YEARS["late"]), "expires_at => 'infinity'"),
    "payload is too long": Bad(NewTask("m", "x" * (1 << 20)), payload="to_json(repeat('x', 1 << 20))"),
    "payload holds NUL": Bad(NewTask("m", {"a": "\0"}), payload='\'{"a": "x\\\\\\\\\\u0000"}\''),
    "payload holds a lone surrogate": Bad(NewTask("m", "\ud800"), payload="'\"\\ud800\"'"),
    "payload holds half a pair": Bad(NewTask("m", "\udc00"), payload="'\"\\udc00\\ud800\"'"),
    "payload is NaN": Bad(NewTask("m", float("nan")), payload="'NaN'"),
    "payload is infinite": Bad(NewTask("m", float("-inf")), payload="'-Infinity'"),
    "payload is beyond a double": Bad(NewTask("m", float("inf")), payload="'{\"a\": [1, -1e400]}'"),
    "payload is far beyond a double": Bad(NewTask("m", float("inf")), payload="'1e999999'"),
    "payload is a long fraction": Bad(NewTask("m", float("inf")), payload="(repeat('9', 320) || '.5')::json"),
    "payload has too many digits": Bad(NewTask("m", 10**4300), payload="repeat('9', 4301)::json"),
    "payload is too deep": Bad(NewTask("m", deep(201)), payload="(repeat('[', 201) || repeat(']', 201))::json"),
    "payload is far too deep": Bad(NewTask("m", deep(900)), payload="(repeat('[[1,', 450) || 1 || repeat(']]', 450))::json"),
    "payload is as deep as a stack": Bad(NewTask("m", deep(900)), payload="(repeat('[', 99999) || repeat(']', 99999))::json"),
    "payload is no JSON": Bad(NewTask("m", {1}), payload="'{1}'"),
}  # fmt: skip


@pytest.mark.parametrize("what", BAD)
def test_what_python_refuses_sql_refuses_too(connection: Connection, what: str) -> None:
    """R32, R64: neither makes a row that could not be claimed, or that a runner could not read."""
    bad = BAD[what]
    for put in (lambda: enqueue(connection, bad.task), lambda: enqueue_many(connection, [bad.task])):
        with pytest.raises(EnqueueError):
            put()
    arguments = ", ".join(filter(None, [bad.mode, bad.payload, bad.arguments]))
    with pytest.raises(psycopg.Error) as refused:
        connection.execute(f"select stoker.enqueue({arguments})".encode())
    assert refused.value.sqlstate is not None
    assert refused.value.sqlstate[:2] in ("22", "42", "54")
    assert len(str(refused.value).splitlines()[0]) < 200
    assert check(connection) == Counts()


GOOD = {
    "as deep as may be": "(repeat('[', 200) || repeat(']', 200))::json",
    "wide": "('[' || repeat('[],', 5000) || '{}]')::json",
    "brackets in text": "to_json(repeat('[{', 5000))",
    "escaped": r"""'{"a": "\\u0000 \ud83d\ude00 \u001f", "e": "1e400 \" 9e999"}'""",
    "large": "'[1e308, -1.7e308, 1E+300, 1e-400, 0e999]'",
    "many digits": "repeat('9', 4300)::json",
    "nothing": "null",
}


@pytest.mark.parametrize("what", GOOD)
def test_what_sql_lets_in_python_can_read(connection: Connection, what: str) -> None:
    """R32: what only looks dangerous is let in."""
    connection.execute(f"select stoker.enqueue('m', {GOOD[what]})".encode())
    ((payload,),) = connection.execute("select payload from stoker.tasks").fetchall()
    assert enqueue(connection, NewTask("m", payload)) == 2


@pytest.mark.parametrize("limit", [7_999, 8_001, 1 << 20])
def test_the_limit_is_of_bytes_and_the_same_on_both_sides(connection: Connection, limit: int) -> None:
    """R64: at the limit it is let in, one byte above it is refused; a character may be several bytes."""
    connection.execute("update stoker.installation set payload_limit = %s", (limit,))
    door, fits = Door(payload_limit=limit), "x" * (limit - 4) + "\u00e9"
    enqueue(connection, NewTask("m", fits), door)
    connection.execute("select stoker.enqueue('m', to_json(%s::text))", (fits,))
    with pytest.raises(EnqueueError, match="above the limit"):
        enqueue(connection, NewTask("m", fits + "x"), door)
    with pytest.raises(psycopg.errors.ProgramLimitExceeded, match="above the limit"):
        connection.execute("select stoker.enqueue('m', to_json(%s::text))", (fits + "x",))
    assert check(connection) == Counts(ready=2)


def test_a_door_wider_than_the_installation_is_held_by_the_database(connection: Connection) -> None:
    """R64: the limit of the configuration holds, whatever a producer thinks."""
    connection.execute("update stoker.installation set payload_limit = 10")
    with pytest.raises(psycopg.errors.ProgramLimitExceeded):
        enqueue(connection, NewTask("m", "x" * 10))
    assert check(connection) == Counts()


def test_modes_are_remembered_and_nothing_is_written_when_nothing_is_new(stoker: Database, connection: Connection) -> None:
    """P11: another host's modes stay; those that nobody told of for a month are not asked about."""
    told = {"modes": ["a", "b"], "versions": [1, 2], "payload_limit": 1 << 20}

    def stamps() -> list[Any]:
        return connection.execute("select mode, version, xmin::text, xmax::text from stoker.modes order by mode").fetchall()

    stoker.run("see_modes", **told)
    before = stamps()
    stoker.run("see_modes", **told)
    assert stamps() == before
    stoker.run("see_modes", modes=["b", "c"], versions=[3, 1], payload_limit=10)
    assert [row[:2] for row in stamps()] == [("a", 1), ("b", 3), ("c", 1)]
    assert connection.execute("select payload_limit from stoker.installation").fetchall() == [(10,)]
    connection.execute("update stoker.modes set seen_at = now() - interval '31 days' where mode = 'a'")
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="unknown mode 'a'") as refused:
        connection.execute("select stoker.enqueue('a', '1')")
    assert refused.value.diag.message_hint == "configured: b, c; or allow_unknown => true"
    stoker.run("see_modes", **told)
    connection.execute("select stoker.enqueue('a', '1')")


def test_two_hosts_that_tell_the_same_at_once_do_not_wait_in_a_circle(database: str, connection: Connection) -> None:
    """R47: in the order of the modes."""
    from concurrent.futures import ThreadPoolExecutor

    from stoker.sql.target import Target

    def tell(number: int) -> None:
        own = Database(Target(database), patience_seconds=5.0)
        modes = [f"m{n}" for n in range(30)]
        for turn in range(20):
            own.run("see_modes", modes=modes[:: -1 if number % 2 else 1], versions=[turn + 1] * 30, payload_limit=1000 + turn)
        own.close()

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(tell, range(6)))
    assert connection.execute("select count(*) from stoker.modes").fetchall() == [(30,)]
