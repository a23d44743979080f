"""Admission holds the interlocks however many fires ask at the same moment."""

import threading
import uuid
from datetime import UTC, date, datetime

import psycopg
import pytest

from stoker.orchestrator.admission import Interlocks, Request, Standing, admit, refuse
from stoker.sql.database import Database
from stoker.sql.target import Target

LIMITS = Interlocks(6, 0.0, 4, 25, 900.0, 3600.0, "UTC")


def ask(lane: str = "main", **limits: object) -> Request:
    interlocks = Interlocks(**{**{name: getattr(LIMITS, name) for name in LIMITS.__slots__}, **limits})
    return Request(str(uuid.uuid4()), lane, None, interlocks, 30.0, {}, None)


@pytest.mark.parametrize("lanes", [1, 2])
def test_of_two_fires_at_once_one_is_admitted_under_a_cap_of_one(database: str, lanes: int) -> None:
    """P5, R13: 200 rounds, the cap has room for one; both ask at the same moment; never two, never none."""
    two = [Database(Target(database)) for _ in range(2)]
    barrier = threading.Barrier(2)
    with psycopg.connect(database, autocommit=True) as connection:
        for number in range(200):
            lane = f"lane-{number}"
            connection.execute("insert into stoker.lanes values (%s)", (lane,)) if lanes == 2 else None
            outcomes: list[str | None] = []

            def fire(which: int, lane: str = lane, outcomes: list[str | None] = outcomes) -> None:
                barrier.wait()
                found = admit(two[which], ask(lane, fires_per_day=1))
                outcomes.append(found.refusal)
                if found.refusal is None:
                    two[which].run("start_closing", fire=found.fire, closer=str(uuid.uuid4()), owner="{}", lease=1.0,
                                   seen_closer=None, only_lapsed=False)  # fmt: skip
                    with psycopg.connect(database, autocommit=True) as own:
                        own.execute("update stoker.fires set state='closed', closed_at=now() where fire=%s", (found.fire,))

            threads = [threading.Thread(target=fire, args=(which,)) for which in range(2)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert sorted(outcome is None for outcome in outcomes) == [False, True]
        ((opened,),) = connection.execute("select count(*) from stoker.fires where state <> 'refused'").fetchall()
    assert opened == 200
    for one in two:
        one.close()


def test_a_fire_asked_for_twice_under_one_key_is_one_fire(database: str) -> None:
    """R80: after an unknown COMMIT the same key finds the same fire, and enters no second row."""
    one = Database(Target(database))
    request = ask()
    first, second = admit(one, request), admit(one, request)
    assert first == second
    assert one.run("list_fires", lane=None, limit=9)[0][0] == first.fire
    assert len(one.run("list_fires", lane=None, limit=9)) == 1
    one.close()


def standing(**changes: object) -> Standing:
    now = datetime(2026, 3, 1, 12, tzinfo=UTC)
    quiet = {"now": now, "day": date(2026, 3, 1), "active": None, "fires_today": 0, "seconds_since_last": None, "taken": None}
    return Standing(**{**quiet, **changes})


@pytest.mark.parametrize(
    ("seen", "limits", "words"),
    [
        ({}, {}, None),
        ({"active": 7}, {}, "fire 7 of this lane is still active"),
        ({"fires_today": 6}, {}, "the daily cap is reached"),
        ({"fires_today": 5}, {}, None),
        ({}, {"fires_per_day": 0}, "the daily cap is reached"),
        ({}, {"fires_per_day": -3}, "fires_per_day is 0"),
        ({"fires_today": 10**6}, {"fires_per_day": None}, None),
        ({"seconds_since_last": 59.0}, {"min_gap": 60.0}, "min_gap is 60 s"),
        ({"seconds_since_last": 60.0}, {"min_gap": 60.0}, None),
    ],
)
def test_a_refusal_says_which_interlock_held(seen: dict[str, object], limits: dict[str, object], words: str | None) -> None:
    """P5: zero and less is zero; none is none; each refusal is explained."""
    refusal = refuse(standing(**seen), ask(**limits).interlocks)
    assert (words is None and refusal is None) or (words is not None and words in (refusal or ""))
