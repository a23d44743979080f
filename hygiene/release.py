"""Who is lost, and what becomes of the tasks they held. One duty frees one worker."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any

from stoker.hygiene.ghosts import reap
from stoker.hygiene.identity import Identity, proven_gone
from stoker.sql.database import Database

LEASE_EXPIRED = "worker lease expired"
WORKER_LOST = "worker lost"


@dataclass(frozen=True, slots=True)
class Living:
    """A worker that has not left, as the database knows it."""

    worker: str
    fire: int
    mode: str
    ordinal: int
    owner: dict[str, Any]
    lapsed: bool
    fenced: bool


@dataclass(frozen=True, slots=True)
class Released:
    """What was freed of one lost worker: tasks by what became of them."""

    worker: str
    fire: int
    mode: str
    reason: str
    unstarted: int
    charged: int
    suspect: int
    failed: int
    unknown: int


def living_workers(database: Database, fire: int | None = None) -> list[Living]:
    """Workers that have not left, of one fire or of all."""
    rows = database.run("list_living", fire=fire)
    return [Living(str(worker), *rest) for worker, *rest in rows]


def reason_lost(worker: Living, *, leases_judged: bool) -> str | None:
    """Why this worker counts as lost: proven gone on this boot, or its lease is over; None while it may live."""
    if proven_gone(identity(worker.owner)):
        return WORKER_LOST
    return LEASE_EXPIRED if worker.lapsed and leases_judged else None


def release(
    database: Database,
    worker: Living,
    reason: str,
    *,
    installation: str,
    status: str | None = None,
    reap_ghosts: bool = True,
) -> Released | None:
    """Fence the worker, end what is left of it on this host, free what it held. None: it renewed, or another was first.

    The order matters: no claim can follow the fence, and nothing of it runs on this host when its tasks are freed.
    """
    if not database.run("fence_worker", worker=worker.worker, only_lapsed=reason == LEASE_EXPIRED):
        return None
    if reap_ghosts:
        reap({worker.worker}, installation, grace_seconds=0.0)
    error = f"{reason} ({status})" if status else reason
    rows = database.run("release_worker", worker=worker.worker, kind=reason, error=error, status=status)
    if not rows:
        return None
    _, unstarted, unknown, failed, charged, suspect = rows[0]
    return Released(worker.worker, worker.fire, worker.mode, error, unstarted, charged, suspect, failed, unknown)


def release_lost(
    database: Database, *, leases_judged: bool, installation: str, fire: int | None = None, reap_ghosts: bool = True
) -> Iterator[Released]:
    """Free every lost worker, of one fire or of all, one by one."""
    for worker in living_workers(database, fire):
        reason = reason_lost(worker, leases_judged=leases_judged)
        if reason is None:
            continue
        released = release(database, worker, reason, installation=installation, reap_ghosts=reap_ghosts)
        if released is not None:
            yield released


def identity(owner: Mapping[str, Any]) -> Identity:
    """The identity in an owner column, whatever else stands there."""
    return Identity(
        **{field.name: owner.get(field.name, 0 if field.type in (int, "int") else "") for field in fields(Identity)}
    )
