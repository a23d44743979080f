"""The seven points of a batch runner one can leave alone, each proven here and now, or "not yet".

The proofs run the very statements of claim, sweep, admission and closing, in a scratch schema of the configured database
that is dropped again; what the limits are is read from the configuration.
"""

import json
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any

from stoker.hygiene.close import NORMAL, REAPED, Seen, Terms, close_fire
from stoker.hygiene.identity import mine
from stoker.hygiene.outbox import undelivered
from stoker.hygiene.sweep import sweep
from stoker.orchestrator.admission import Admission, Interlocks, Request, admit
from stoker.orchestrator.doctor import Finding
from stoker.orchestrator.session import Session
from stoker.sql.database import Database, StatementError, Transaction
from stoker.sql.enqueue import Door, NewTask, enqueue_many
from stoker.sql.migrate import MigrationError, migrate
from stoker.sql.query import quote_identifier

_MODE = "checklist"
_CLAIM = {
    "mode": _MODE, "version": 1, "mark_priority": -(2**31) - 1, "mark_lo": -1, "locks": 10, "batch": 10, "chunk": 10,
    "lease": 60.0, "side_effect": False, "max_attempts": 3, "ahead": False, "dead_after": 60.0,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Scratch:
    """Two connections to one scratch schema, and the terms on which its fires are closed."""

    one: Database
    two: Database
    terms: Terms


def prove(session: Session) -> list[Finding]:
    """One finding a point."""
    try:
        with _scratch(session) as scratch:
            fire = _admit(scratch, cap=1, lane="one").fire
            found = [
                Finding("1 atomic skip-locked claim", *_claim(scratch, fire)),
                Finding("2 hygiene first", *_hygiene_first(scratch)),
                Finding("3 sweep between fires", *_sweeps(scratch)),
                Finding("4 task cap and wall clock", *_worker_limits(session)),
                Finding("5 pool and fire caps", *_fire_limits(scratch, session)),
                Finding("6 one note at a barrier", *_notes(scratch, session.database)),
            ]
    except (MigrationError, StatementError) as error:
        return [Finding("scratch schema", False, f"could not be made, so nothing was proven: {error}")]
    return [*found, Finding("7 a watcher for missed fires", *_watcher(session.database))]


@contextmanager
def _scratch(session: Session) -> Iterator[_Scratch]:
    schema = f"stoker_checklist_{uuid.uuid4().hex[:12]}"
    target = replace(session.database.target, schema=schema)
    one, two = Database(target), Database(target)
    migrate(target.url, schema)
    try:
        ((installation, *_),) = one.run("installation")
        yield _Scratch(one, two, Terms(REAPED, installation))
    finally:
        two.close()
        with one.raw() as connection:
            connection.execute(f"drop schema {quote_identifier(schema)} cascade".encode())
        one.close()


def _claim(scratch: _Scratch, fire: int) -> tuple[bool, str]:
    with scratch.one.raw() as connection:
        for n in range(20):
            enqueue_many(connection, [NewTask(_MODE, n)], Door(scratch.one.target.schema))
    workers = [_register(scratch, fire) for _ in range(2)]
    claim = {**_CLAIM, "token": str(uuid.uuid4())}

    def both(tx: Transaction) -> tuple[set[int], set[int]]:
        first = tx.run("claim_batch", worker=workers[0], **claim)
        other = scratch.two.run("claim_batch", worker=workers[1], **{**claim, "token": str(uuid.uuid4())})
        return _ids(first), _ids(other)

    first, second = scratch.one.in_transaction(both)
    for worker in workers:
        scratch.one.run("leave", worker=worker, reason="checked", status=None, respawns=0, peak_memory=0, cpu=0.0, db_retries=0)
    ok = len(first) == len(second) == 10 and not first & second
    return (
        ok,
        f"two connections at once took {len(first)} + {len(second)} of 20 tasks, {len(first & second)} of them twice",
    )


def _ids(rows: list[tuple[Any, ...]]) -> set[int]:
    """The ids in what claim_batch gave."""
    los, his, *_ = rows[0]
    return {task for lo, hi in zip(los or (), his or (), strict=True) for task in range(lo, hi + 1)}


def _hygiene_first(scratch: _Scratch) -> tuple[bool, str]:
    """A fire of this lane whose owner is gone, with a lost worker, stands in the way of the next: a sweep comes first."""
    stranded = _admit(scratch, cap=None, lane="two", owner=_gone()).fire
    blocked = _admit(scratch, cap=None, lane="two").refusal
    swept = sweep(scratch.one, scratch.terms, installation=scratch.terms.installation, lane="two")
    admitted = _admit(scratch, cap=None, lane="two").refusal is None
    ok = blocked is not None and swept.fires_closed == [stranded] and admitted
    return ok, "a stranded fire was closed by the sweep that every fire begins with, and the next was admitted"


def _sweeps(scratch: _Scratch) -> tuple[bool, str]:
    fire = _admit(scratch, cap=None, lane="three").fire
    lost = _register(scratch, fire, owner=_gone())
    with scratch.one.raw() as connection:
        enqueue_many(connection, [NewTask("lost", 0)], Door(scratch.one.target.schema))
    scratch.one.run("claim_batch", worker=lost, **{**_CLAIM, "mode": "lost", "token": str(uuid.uuid4())})
    swept = sweep(scratch.one, scratch.terms, installation=scratch.terms.installation, lane="three")
    freed = [one for one in swept.released if one.worker == lost]
    ok = len(freed) == 1 and freed[0].charged == 1
    return (
        ok,
        "stoker sweep freed the task of a worker that was gone, one attempt spent; run it from cron every few minutes",
    )


def _worker_limits(session: Session) -> tuple[bool, str]:
    limits = session.config.limits
    ok = limits.task_cap is not None and limits.wall_clock_seconds is not None
    exits = dict(session.database.run("exit_reasons"))
    text = f"task_cap {limits.task_cap or 'none'}, wall_clock {limits.wall_clock_seconds or 'none'} s"
    return (
        ok,
        f"{text}; here {exits.get('cap', 0)} workers have left at their cap, {exits.get('clock', 0)} at their clock",
    )


def _fire_limits(scratch: _Scratch, session: Session) -> tuple[bool, str]:
    """The lane "one" has a cap of one fire a day, and has had it: closed, so that only the cap can refuse the next."""
    ((fire, *_),) = scratch.one.run("list_active_fires", lane="one")
    close_fire(scratch.one, Seen(fire), replace(scratch.terms, ended=NORMAL, worker_lease=0.0))
    refusal = _admit(scratch, cap=1, lane="one").refusal
    limits = session.config.limits
    ok = refusal is not None and "daily cap" in refusal and limits.fires_per_day is not None
    return (
        ok,
        f"a second under a cap of 1 was refused; here fires_per_day {limits.fires_per_day}, max_pool {limits.max_pool}",
    )


def _notes(scratch: _Scratch, database: Database) -> tuple[bool, str]:
    ((fire, *_),) = scratch.one.run("list_active_fires", lane="two")
    first = close_fire(scratch.one, Seen(fire), replace(scratch.terms, ended=NORMAL))
    second = close_fire(scratch.two, Seen(fire), replace(scratch.terms, ended=NORMAL))
    notes = scratch.one.run("find_note", fire=fire)
    text = "a fire closed twice has one note; the second closer changed nothing"
    waiting = sum(one["waiting"] for one in undelivered(database))
    dead = sum(one["dead"] for one in undelivered(database))
    return first and not second and len(notes) == 1, f"{text}; here {waiting} message(s) wait to be delivered, {dead} are dead"


def _watcher(database: Database) -> tuple[bool, str]:
    for age, expected in database.run("watchdog_age"):
        ago = f"a watchdog looked {age:.0f} s ago"
        return age <= expected, ago if age <= expected else f"{ago}, and should have looked again after {expected:.0f} s"
    return False, "no watchdog has reported to this database"


def _admit(scratch: _Scratch, cap: int | None, lane: str, owner: dict[str, object] | None = None) -> Admission:
    limits = Interlocks(cap, 0.0, 1, 1, 60.0, 60.0, "UTC")
    return admit(scratch.one, Request(str(uuid.uuid4()), lane, None, limits, 60.0, owner or asdict(mine()), None))


def _register(scratch: _Scratch, fire: int, owner: dict[str, object] | None = None) -> str:
    worker = str(uuid.uuid4())
    scratch.one.run(
        "register_worker",
        worker=worker,
        fire=fire,
        mode=_MODE,
        ordinal=1,
        owner=json.dumps(owner or asdict(mine())),
        lease=60.0,
    )
    return worker


def _gone() -> dict[str, object]:
    """The identity of a process of this boot that is certainly gone: our own pid, with another start."""
    return {**asdict(mine()), "start_ticks": 1}
