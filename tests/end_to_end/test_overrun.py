"""Fires that take longer than their interval, in virtual time, and under the process that stands by."""

import uuid
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from bench.virtual.clock import Clock, VirtualDatabase, install
from tests.end_to_end.project import Project
from tests.waiting import wait_until

from stoker.hygiene.close import NORMAL, Seen, Terms, close_fire
from stoker.hygiene.restored import installation_of
from stoker.orchestrator.admission import Interlocks, Request, admit
from stoker.orchestrator.settings import ScheduleSettings

START = datetime(2027, 3, 28, tzinfo=UTC)
LOCKS = Interlocks(None, 0.0, 4, 25, 900.0, None, "UTC")
MINUTE = timedelta(minutes=1)


@pytest.mark.parametrize("overlap", ["skip", "wait"])
@pytest.mark.parametrize(("lasts", "minutes"), [(timedelta(seconds=90), 30), (timedelta(hours=2), 300)])
def test_a_fire_that_outlasts_its_interval_leaves_no_pile(database: str, overlap: str, lasts: timedelta, minutes: int) -> None:
    """R26: every minute, of 90 s and of 2 h: one at a time; each slot fired, or says why not; nothing is left at the end."""
    clock = Clock(START)
    install(database, START)
    own = VirtualDatabase(database, clock, patience_seconds=5.0)
    schedule = ScheduleSettings.of({"name": "often", "cron": "* * * * *", "overlap": overlap})
    terms = Terms(NORMAL, installation_of(own), reap_ghosts=False)
    running: dict[int, datetime] = {}

    def come() -> int:
        request = Request(str(uuid.uuid4()), "main", None, LOCKS, 1e6, {}, None, schedule=schedule)
        found = admit(own, request)
        if found.fire and found.refusal is None:
            running[found.fire] = clock.now + lasts
        return found.fire

    for second in range(2, 60 * minutes, 30):
        clock.now = START + timedelta(seconds=second)
        for fire in [fire for fire, end in running.items() if end <= clock.now]:
            del running[fire]
            assert close_fire(own, Seen(fire), terms)
        come()
        assert len(running) <= 1
    for fire in running:
        assert close_fire(own, Seen(fire), terms)
    late = come()
    assert overlap == "wait" or not late
    assert come() == 0, "there is a pile"
    with own.raw() as connection:
        slots = connection.execute("select due_at, last_due_at, state, reason from stoker.slots order by due_at").fetchall()
        ((most,),) = connection.execute(
            "select max((select count(*) from stoker.fires o where o.opened_at <= f.opened_at and o.closed_at > f.opened_at))"
            " from stoker.fires f where fire <> %s",
            (late,),
        ).fetchall()
    own.close()
    assert most == 1
    assert slots[0][0] == START + MINUTE
    assert slots[-1][1] == START + (minutes - 1) * MINUTE
    assert all(later[0] - earlier[1] == MINUTE for earlier, later in pairwise(slots))
    reasons = {reason.partition(":")[0] for *_, reason in slots if reason}
    assert reasons == {"overlap" if overlap == "skip" else "a later one was made good"}


@pytest.mark.parametrize("overlap", ["skip", "wait"])
def test_what_stands_says_of_each_slot_that_it_overlapped_or_fires_it_afterwards(project: Project, overlap: str) -> None:
    """R26, P7: while the fire runs the slots are decided, not only when it has ended; or the newest fires as it ends."""
    project.write(f"""
[limits]
fires_per_day = "none"
[modes.gated]
handler = "jobs:gated"
[[schedules]]
name = "often"
every = "4s"
overlap = "{overlap}"
""")
    project.enqueue("gated", 1)
    standing = project.start("run")
    project.wait_for_starts(1)
    opened = "select fire from stoker.fires where state in ('open', 'closing')"
    ((first,),) = project.query(opened)
    if overlap == "skip":
        skipped = "select distinct reason from stoker.slots where state = 'skipped' and decided_at > now() - interval '5 s'"
        reason = f"overlap: fire {first} of this lane is still active"
        wait_until(lambda: project.query(skipped) == [(reason,)], 20, "a slot that is skipped")
    else:
        ((due,),) = project.query("select due_at from stoker.slots where fire = %s", first)
        wait_until(lambda: project.query("select where now() > %s + interval '4.6 s'", due) != [], 20)
        assert project.query("select count(*) from stoker.slots where due_at > %s", due) == [(0,)]
    assert project.query(opened) == [(first,)]
    project.open_gate()
    wait_until(lambda: project.query("select from stoker.fires where fire > %s and state = 'closed'", first) != [], 20)
    if overlap == "wait":
        ((gap,),) = project.query(
            "select extract(epoch from min(n.opened_at) - f.closed_at)::float8 from stoker.fires f, stoker.fires n"
            " where f.fire = %s and n.fire > f.fire group by f.closed_at",
            first,
        )
        assert gap < 2.5, "it came with the next due time, not with the end of the fire before"
    standing.terminate()
    assert standing.wait(timeout=20) == 0
    slots = project.query("select due_at, last_due_at, state from stoker.slots order by due_at")
    assert all((later[0] - earlier[1]).total_seconds() == 4 for earlier, later in pairwise(slots))
    assert {state for *_, state in slots} <= ({"ran", "skipped"} if overlap == "skip" else {"ran", "missed"})
