"""Whether a fire may open. One lane row is locked first; what decides is read in later statements of that transaction."""

import json
import uuid
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import TYPE_CHECKING, Any

from stoker.orchestrator.holder import named
from stoker.orchestrator.settings import ScheduleSettings
from stoker.sql.database import Database, Transaction

if TYPE_CHECKING:
    from stoker.orchestrator.slots import Due


@dataclass(frozen=True, slots=True)
class Interlocks:
    """The limits admission holds, recorded with the fire. None: switched off; zero and less: nothing passes."""

    fires_per_day: int | None
    min_gap: float
    max_pool: int
    task_cap: int | None
    wall_clock: float | None
    fire_deadline: float | None
    timezone: str


@dataclass(frozen=True, slots=True)
class Request:
    """A fire that asks to open: its key, made by the client; who it is; how long its lease lasts (seconds).

    ``gate`` says why nothing may start, when the operator has closed the gate. ``channels``: by name, when its note is sent
    there (always, problems).
    """

    key: str
    lane: str
    reason: str | None
    interlocks: Interlocks
    lease: float
    owner: dict[str, Any]
    code_version: str | None
    gate: str | None = None
    schedule: ScheduleSettings | None = None
    channels: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Admission:
    """The outcome: the fire's number, and why it was refused, if it was.

    Without a fire the number is 0: nothing was due (``idle``), or the refusal stands in the slot.
    """

    fire: int
    refusal: str | None
    due_at: datetime | None = None
    idle: str = ""


@dataclass(frozen=True, slots=True)
class Standing:
    """What stood when the lane was locked."""

    now: datetime
    day: date
    active: int | None
    fires_today: int
    seconds_since_last: float | None
    taken: int | None
    gate: str | None = None


def admit(database: Database, request: Request) -> Admission:
    """Open the fire, or record why not; for a schedule only if a slot of it is due, and with what became of that.

    Raises LaneHeldError when another session has locked what decides.
    """
    with named(database):
        database.run("enter_lane", lane=request.lane)
        if request.schedule is not None:
            from stoker.orchestrator.slots import register  # here and below 3 ms, for a fire of a schedule

            register(database, request.schedule)
        return database.in_transaction(lambda tx: _admit(tx, request), repeatable=True)


def _admit(tx: Transaction, request: Request) -> Admission:
    schedule = request.schedule
    due = _take(tx, schedule) if schedule is not None else None
    if schedule is not None and due is None and not tx.run("find_admission", key=request.key):
        return Admission(0, None, idle="no slot is due, or another trigger has taken it")
    if due is not None and schedule is not None and due.held:
        _decide(tx, due, schedule, fire=0, refusal=due.held)
        return Admission(0, due.held, due.at)
    tx.run("lock_lane", lane=request.lane)
    (standing,) = tx.rows(Standing, "look_admission", lane=request.lane, timezone=request.interlocks.timezone, key=request.key)
    if standing.taken is not None:
        return _again(tx, standing.taken)
    refusal = f"the gate is closed: {request.gate}" if request.gate else refuse(standing, request.interlocks)
    if due is not None and standing.active is not None and schedule is not None and schedule.overlap == "wait":
        return Admission(0, None, due.at, f"the slot waits for fire {standing.active}")
    if due is not None and schedule is not None and refusal is not None:
        refusal = f"overlap: {refusal}" if refusal == _busy(standing) else refusal
        _decide(tx, due, schedule, fire=0, refusal=refusal)
        return Admission(0, refusal, due.at)
    ((fire,),) = tx.run(
        "open_fire",
        key=request.key,
        lane=request.lane,
        state="refused" if refusal else "open",
        refusal=refusal,
        reason=request.reason,
        day=standing.day,
        lease=request.lease,
        deadline=request.interlocks.fire_deadline,
        interlocks=json.dumps(_as_json(request.interlocks)),
        code_version=request.code_version,
        owner=json.dumps(request.owner),
    )
    if request.channels and refusal is None:
        tx.run("say_channels", fire=fire, channels=json.dumps(request.channels))
    if due is not None and schedule is not None:
        _decide(tx, due, schedule, fire=fire, refusal=refusal)
    return Admission(fire, refusal, due.at if due else None)


def _take(tx: Transaction, schedule: ScheduleSettings) -> "Due | None":
    from stoker.orchestrator.slots import take

    return take(tx, schedule)


def _decide(tx: Transaction, due: "Due", schedule: ScheduleSettings, *, fire: int, refusal: str | None) -> None:
    from stoker.orchestrator.slots import decide

    decide(tx, due, schedule, fire=fire, refusal=refusal)


def foresee(database: Database, lane: str, limits: Interlocks) -> str | None:
    """Why a fire would be refused now; None when it would be admitted. Nothing is locked or written."""
    (standing,) = database.rows(Standing, "look_admission", lane=lane, timezone=limits.timezone, key=str(uuid.uuid4()))
    return refuse(standing, limits)


def refuse(standing: Standing, limits: Interlocks) -> str | None:
    """Why a fire may not open now, in one sentence; None when it may."""
    if standing.gate is not None:
        return f"the gate is closed: {standing.gate}"
    if standing.active is not None:
        return _busy(standing)
    cap = limits.fires_per_day
    if cap is not None and standing.fires_today >= max(cap, 0):
        counted = f"{standing.fires_today} fires on {standing.day} ({limits.timezone})"
        return f"the daily cap is reached: {counted}, limits.fires_per_day is {max(cap, 0)}"
    since = standing.seconds_since_last
    if since is not None and since < limits.min_gap:
        return f"the last fire opened {since:.0f} s ago; limits.min_gap is {limits.min_gap:.0f} s"
    return None


def _busy(standing: Standing) -> str:
    return f"fire {standing.active} of this lane is still active"


def _again(tx: Transaction, fire: int) -> Admission:
    """This very key was entered before: by ourselves, if the reply to our COMMIT was lost."""
    ((refusal,),) = tx.run("find_refusal", fire=fire)
    return Admission(fire, refusal)


def _as_json(limits: Interlocks) -> dict[str, Any]:
    return {name: getattr(limits, name) for name in limits.__slots__}
