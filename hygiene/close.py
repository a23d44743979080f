"""The end of a fire, whoever brings it about: its own orchestrator, or hygiene when that one is gone.

1. commit ``closing``, and fence its workers: no claim can follow;
2. wait until each is gone or its lease is over, and free what it held;
3. in one transaction, compare-and-set ``closing -> closed``, write the note, and post it to its channels.
"""

import json
import time
import uuid
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from stoker.hygiene.clock import leases_are_judged
from stoker.hygiene.ghosts import reap
from stoker.hygiene.identity import mine, proven_gone
from stoker.hygiene.note import gather, verdict_line
from stoker.hygiene.outbox import post_note
from stoker.hygiene.release import identity, living_workers, release_lost
from stoker.sql.database import Database, Transaction

NORMAL, INTERRUPTED, DEADLINE, REAPED = "normal", "interrupted", "deadline", "reaped"


@dataclass(frozen=True, slots=True)
class Terms:
    """On which terms a fire is closed: by what it ended, and the leases (seconds) that bound the waiting."""

    ended: str
    installation: str
    fire_lease: float = 30.0
    worker_lease: float = 30.0
    reap_ghosts: bool = True
    extra: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Seen:
    """An active fire as a closer saw it: who was closing it, and whether only an expired lease makes it stranded."""

    fire: int
    closer: str | None = None
    only_lapsed: bool = False


def close_fire(database: Database, seen: Seen, terms: Terms, *, pause: Callable[[float], None] = time.sleep) -> bool:
    """Close a fire; False when somebody else did, or is doing it, and nothing was changed."""
    closer, fire = str(uuid.uuid4()), seen.fire
    taken = database.run(
        "start_closing",
        fire=fire,
        closer=closer,
        owner=json.dumps(asdict(mine())),
        lease=terms.fire_lease,
        seen_closer=seen.closer,
        only_lapsed=seen.only_lapsed,
    )
    if not taken:
        return False
    fenced = {str(row[0]) for row in database.run("fence_fire", fire=fire)}
    if terms.reap_ghosts:
        reap(fenced | {w.worker for w in living_workers(database, fire)}, terms.installation, grace_seconds=0.0)
    if not _empty(database, fire, closer, terms, pause):
        return False
    return database.in_transaction(lambda tx: _write(tx, fire, closer, terms), repeatable=True)


def close_stranded(database: Database, terms: Terms, lane: str | None = None) -> list[int]:
    """Close every fire, of one lane or of all, whose owner is proven gone or whose lease is over."""
    judged = leases_are_judged(database, terms.fire_lease)
    closed = []
    for fire, owner, closer, lapsed in database.run("list_active_fires", lane=lane):
        gone = proven_gone(identity(owner))
        if not gone and not (lapsed and judged):
            continue
        if close_fire(database, Seen(fire, closer, only_lapsed=not gone), terms):
            closed.append(fire)
    return closed


def _empty(database: Database, fire: int, closer: str, terms: Terms, pause: Callable[[float], None]) -> bool:
    """Wait, a lease at the longest each, until no worker of the fire is left; False when the closing was taken over."""
    renewed = time.monotonic()
    while living_workers(database, fire):
        judged = leases_are_judged(database, terms.worker_lease)
        list(
            release_lost(
                database,
                leases_judged=judged,
                installation=terms.installation,
                fire=fire,
                reap_ghosts=terms.reap_ghosts,
            )
        )
        if not living_workers(database, fire):
            return True
        if time.monotonic() - renewed > terms.fire_lease / 3:
            if not database.run("renew_fire", fire=fire, closer=closer, lease=terms.fire_lease):
                return False
            renewed = time.monotonic()
        pause(0.2)
    return True


def _write(tx: Transaction, fire: int, closer: str, terms: Terms) -> bool:
    closed = tx.run("close_fire", fire=fire, closer=closer)
    if not closed:
        return bool(tx.run("closed_by", fire=fire, closer=closer))
    facts = gather(tx, fire, terms.ended, terms.extra or {})
    tx.run("write_note", fire=fire, verdict=verdict_line(facts), facts=json.dumps(facts, default=str))
    post_note(tx, facts)
    return True
