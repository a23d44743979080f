"""Why a task is not running now: from the facts to one paragraph in plain words. Pure, but for ``look``."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime

from stoker.orchestrator.config import Config
from stoker.sql.database import Database


@dataclass(frozen=True, slots=True)
class Facts:
    """A task as it stands, and what stands around it.

    ``configured_version`` is None when the mode is not configured here; ``max_pool`` and ``task_cap`` are its limits.
    """

    id: int
    mode: str
    status: str
    version: int
    attempts: int | None
    max_attempts: int | None
    created_at: datetime | None
    available_at: datetime | None
    expires_at: datetime | None
    due_in: float | None
    is_late: bool | None
    claimed_by: str | None
    claimed_at: datetime | None
    cancel_asked_at: datetime | None
    finished_at: datetime | None
    fire: int | None
    error_kind: str | None
    error_detail: str | None
    held_for: str | None
    question: str | None
    is_in_line: bool | None
    lane_key: str | None
    suspect: bool | None
    erased_at: datetime | None
    front: int | None
    paused_by: str | None
    paused_at: datetime | None
    paused_because: str | None
    dead_by: datetime | None
    is_early: bool | None
    held_at: datetime | None
    cancelled_by: str | None
    held_by: str | None
    fires: list[int]
    configured_version: int | None = None
    is_run_here: bool = True
    max_pool: int = 1
    task_cap: int | None = None


def look(database: Database, config: Config, task: int) -> Facts | None:
    """The facts of a task; None when there is none."""
    found = database.rows(Facts, "explain_task", id=task)
    if not found:
        return None
    mode = config.modes.get(found[0].mode)
    caps = [cap for cap in (mode.task_cap if mode else None, config.limits.task_cap) if cap is not None]
    workers = [config.limits.max_pool] + ([mode.max_workers] if mode and mode.max_workers is not None else [])
    return replace(
        found[0],
        configured_version=mode.version if mode else None,
        is_run_here=mode is None or found[0].mode in config.served,
        max_pool=min(workers),
        task_cap=min(caps) if caps else None,
    )


def explain(facts: Facts) -> str:
    """One paragraph."""
    words = {
        "queued": _queued,
        "held": _held,
        "in_progress": _in_progress,
        "unknown": _unknown,
        "done": _done,
        "failed": _failed,
        "cancelled": _cancelled,
        "expired": _expired,
    }[facts.status]
    text = f"Task {facts.id} of mode {facts.mode} " + " ".join(words(facts))
    if facts.cancel_asked_at is not None:
        text += f" It was asked to be cancelled at {_at(facts.cancel_asked_at)}."
    if facts.erased_at is not None:
        text += f" What it said was erased at {_at(facts.erased_at)}."
    return text


def _queued(facts: Facts) -> Iterator[str]:
    """Every reason that holds, the one that lasts longest first."""
    reasons = list(_hindrances(facts))
    yield "is queued, and nothing of its own keeps it from starting." if not reasons else "is queued."
    yield from reasons
    if facts.suspect:
        yield "A worker died with it among others: it is claimed alone."
    if facts.attempts:
        yield f"Attempts spent: {facts.attempts}{_of(facts.max_attempts)}."
    if facts.fires:
        which = ", ".join(str(fire) for fire in facts.fires)
        yield f"Active fire(s): {which}; what their workers do not reach waits for the next fire."
    else:
        yield "No fire is active: it waits for the next one (stoker fire)."


def _hindrances(facts: Facts) -> Iterator[str]:
    if facts.is_late:
        yield f"Its time to be started passed at {_at(facts.expires_at)}: the next sweep ends it as expired."
    if facts.configured_version is None:
        yield "Its mode is not configured here: no worker of this configuration takes it."
    elif facts.version > facts.configured_version:
        yield (
            f"Its payload has version {facts.version}, newer than the configured {facts.configured_version}:"
            " it waits for workers with the newer code."
        )
    if not facts.is_run_here:
        yield "This host does not run its mode ([worker] modes): it waits for another's workers."
    if facts.paused_by is not None:
        yield (
            f"Its mode is paused by {facts.paused_by} since {_at(facts.paused_at)}: {facts.paused_because}"
            f" (stoker unpause {facts.mode})."
        )
    if facts.is_in_line:
        front = f"task {facts.front}, which" if facts.front is not None else "another, which"
        yield f"It stands in line {facts.lane_key!r} behind {front} must end first."
    if facts.due_in is not None and facts.due_in > 0:
        yield f"It is not due until {_at(facts.available_at)}."
    if facts.max_pool <= 0 or (facts.task_cap is not None and facts.task_cap <= 0):
        yield "The limits let no worker start it: see max_pool, max_workers and task_cap (stoker plan)."


def _held(facts: Facts) -> Iterator[str]:
    since = f" since {_at(facts.held_at)}" if facts.held_at is not None else ""
    match facts.held_for:
        case "approval":
            yield f"waits for approval{since}: stoker tasks approve {facts.id}, or --refuse."
        case "question":
            yield f"is held with a question{since}: {facts.question or 'no text'}"
            yield f"To go on: stoker tasks resume {facts.id} --answer TEXT."
        case "operator":
            why = f": {facts.question}" if facts.question else ""
            yield f"is held by {facts.held_by or 'a person'}{since}{why}. To go on: stoker tasks resume {facts.id}."
        case other:
            yield f"is held ({other}){since}. To go on: stoker tasks resume {facts.id}."


def _in_progress(facts: Facts) -> Iterator[str]:
    yield f"is being run by worker {facts.claimed_by} since {_at(facts.claimed_at)}."


def _unknown(facts: Facts) -> Iterator[str]:
    yield f"had a side effect whose outcome is not known ({facts.error_kind}); it is not started again blindly."
    if facts.is_early:
        yield f"Its old runner may be alive until {_at(facts.dead_by)}."
    yield f"Find out what happened, then: stoker tasks release {facts.id} --as done|failed|queued."


def _done(facts: Facts) -> Iterator[str]:
    yield f"is done since {_at(facts.finished_at)}{_in(facts.fire)}, at attempt {facts.attempts}."


def _failed(facts: Facts) -> Iterator[str]:
    error = f": {facts.error_detail}" if facts.error_detail else ""
    yield f"failed at {_at(facts.finished_at)}{_in(facts.fire)} after {facts.attempts} attempt(s), {facts.error_kind}{error}."
    yield f"To try it again: stoker tasks retry {facts.id}." if facts.erased_at is None else ""


def _cancelled(facts: Facts) -> Iterator[str]:
    why = f": {facts.error_detail}" if facts.error_detail else ""
    yield f"was cancelled by {facts.cancelled_by} at {_at(facts.finished_at)}{why}."


def _expired(facts: Facts) -> Iterator[str]:
    yield f"expired at {_at(facts.finished_at)}: it was not started before {_at(facts.expires_at)}."


def _at(when: datetime | None) -> str:
    return f"{when:%Y-%m-%d %H:%M:%S %Z}".strip() if when is not None else "?"


def _in(fire: int | None) -> str:
    return f" in fire {fire}" if fire is not None else ""


def _of(most: int | None) -> str:
    return f" of {most}" if most is not None else ""
