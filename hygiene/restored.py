"""After a restore from an old dump: nothing of what the dump takes for running is, and nobody knows how it ended.

1. look whether somebody is alive after all; 2. fence and bury every worker, quarantine what it held; 3. close the open fires,
each with its note; what waits to be delivered is held, those notes too.
"""

import json
from dataclasses import asdict, dataclass, replace

from stoker.hygiene.close import Seen, Terms, close_fire
from stoker.hygiene.identity import proven_alive
from stoker.hygiene.release import identity
from stoker.sql.database import Database

RESTORED = "restored"
QUESTION = "was running when the dump was made"


class RestoredError(Exception):
    """The schema came out of a dump, and nobody has yet said so."""

    def __init__(self) -> None:
        super().__init__(
            "this schema was loaded from a dump: what it takes for running may be over. Nothing fires and nothing is swept"
            " until you run: stoker restored (in a copy beside the original: stoker restored --copy)"
        )


def installation_of(database: Database) -> str:
    """Who this schema is. Raises RestoredError when a dump was loaded since; a copy of the server's files goes unnoticed."""
    ((installation, _, is_restored, _),) = database.run("installation")
    if is_restored:
        raise RestoredError
    return str(installation)


class StillAliveError(Exception):
    """Somebody that the database takes for at work is at work: this is no restored dump, or it is a copy beside it."""

    def __init__(self, alive: list[str]) -> None:
        self.alive = alive
        super().__init__(
            f"{', '.join(alive)} still lives on this host, so this is no old dump; nothing was changed. If it is a copy beside"
            " the original: stoker restored --copy. Else wait until it has ended, or end it; --force goes on all the same."
        )


@dataclass(slots=True)
class Restored:
    """What was found at work, and what became of it."""

    workers: int = 0
    fires: int = 0
    unstarted: int = 0
    held: int = 0
    unknown: int = 0
    cancelled: int = 0
    messages: int = 0


def quarantine(database: Database, terms: Terms, *, actor: str, force: bool = False, is_copy: bool = False) -> Restored:
    """Bury who was at work when the dump was made. Raises StillAliveError, before anything is changed.

    No process is ended: who is alive may belong to the original of a copy.
    """
    owners = database.run("list_owners")
    alive = [f"{kind} {name} (pid {owner.get('pid')})" for kind, name, owner in owners if proven_alive(identity(owner))]
    if alive and not force and not is_copy:
        raise StillAliveError(alive)
    restored = Restored(messages=len(database.run("hold_outbox")))
    database.run("forget_told")
    for kind, name, _ in owners:
        if kind == "worker":
            database.run("fence_worker", worker=name, only_lapsed=False)
            ((unstarted, held, unknown, cancelled),) = database.run("quarantine_worker", worker=name, question=QUESTION)
            restored.workers += 1
            restored.unstarted += unstarted
            restored.held += held
            restored.unknown += unknown
            restored.cancelled += cancelled
    for fire, _, closer, _ in database.run("list_active_fires", lane=None):
        closed = close_fire(database, Seen(fire, closer), replace(terms, ended=RESTORED, reap_ghosts=False))
        restored.fires += closed
    database.run("record_restored", actor=actor, is_copy=is_copy, detail=json.dumps(asdict(restored)))
    return restored
