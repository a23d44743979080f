"""One pass of hygiene: before a fire starts anything, and from ``stoker sweep`` between fires."""

from dataclasses import asdict, dataclass, field
from typing import Any

from stoker.hygiene.clock import leases_are_judged
from stoker.hygiene.close import REAPED, Terms, close_stranded
from stoker.hygiene.ghosts import find_ghosts, reap
from stoker.hygiene.identity import age_seconds
from stoker.hygiene.release import Released, release_lost
from stoker.sql.database import Database
from stoker.sql.partitions import add_partitions
from stoker.sql.retention import Pruned, prune

_AT_ONCE = 1000
_TO_REGISTER_SECONDS = 60.0


@dataclass(slots=True)
class Swept:
    """What one pass repaired."""

    fires_closed: list[int] = field(default_factory=list)
    released: list[Released] = field(default_factory=list)
    ghosts: list[str] = field(default_factory=list)
    promoted: int = 0
    expired: int = 0
    cancelled: int = 0
    partitions: int = 0
    needs_owner: bool = False
    pruned: Pruned = field(default_factory=Pruned)

    def facts(self) -> dict[str, Any]:
        """As JSON values, with sums over the workers released."""
        counts = {
            name: sum(getattr(one, name) for one in self.released)
            for name in ("unstarted", "charged", "suspect", "failed", "unknown")
        }
        return {
            "fires_closed": self.fires_closed,
            "workers_released": [asdict(one) for one in self.released],
            "ghosts": self.ghosts,
            "promoted": self.promoted,
            "expired": self.expired,
            "cancelled": self.cancelled,
            "needs_owner": self.needs_owner,
            "pruned": asdict(self.pruned),
            **counts,
        }


def sweep(
    database: Database,
    terms: Terms | None = None,
    *,
    installation: str,
    lane: str | None = None,
    keep_seconds: float | None = None,
) -> Swept:
    """Close stranded fires (of one lane, or of all), free lost workers' tasks, end ghosts, expire and promote what is due.

    And let those come to the front of their lines who are next, make true what was asked to be cancelled meanwhile, and take
    out a part of what ended more than ``keep_seconds`` ago; None keeps all.
    """
    terms = terms or Terms(REAPED, installation)
    swept = Swept()
    swept.fires_closed = close_stranded(database, terms, lane)
    judged = leases_are_judged(database, terms.worker_lease)
    swept.released = list(
        release_lost(database, leases_judged=judged, installation=installation, reap_ghosts=terms.reap_ghosts)
    )
    if terms.reap_ghosts:
        swept.ghosts = _end_ghosts(database, installation)
    swept.expired = _until_none(database, "expire")
    swept.cancelled = _until_none(database, "answer_requests", ids=None)
    _move_lines(database)
    swept.promoted = _until_none(database, "promote_due")
    made = add_partitions(database)
    swept.partitions, swept.needs_owner = made or 0, made is None
    if keep_seconds is not None:
        swept.pruned = prune(database, keep_seconds)
    return swept


def _end_ghosts(database: Database, installation: str) -> list[str]:
    """End processes of workers that are gone. One that is not known here may be about to register: it gets its time."""
    known: dict[str, bool] = {}

    def legitimate(workers: set[str]) -> set[str]:
        known.update(database.run("legitimate_workers", workers=sorted(workers)))
        return {worker for worker, is_legitimate in known.items() if is_legitimate}

    found = find_ghosts(installation, legitimate)
    ghosts = {ghost.worker for ghost in found if ghost.worker in known or age_seconds(ghost.start_ticks) > _TO_REGISTER_SECONDS}
    return [f"{one.name} (pid {one.pid})" for one in reap(ghosts, installation, grace_seconds=1.0)] if ghosts else []


def _until_none(database: Database, statement: str, **parameters: Any) -> int:
    """Run a statement that moves so many at once until there are fewer; how many it moved."""
    total = 0
    while True:
        ((moved,),) = database.run(statement, limit=_AT_ONCE, **parameters)
        total += int(moved)
        if moved < _AT_ONCE:
            return total


def _move_lines(database: Database) -> None:
    """Bring up who is next in every line whose front is over; lines that others hold at this moment wait for the next pass."""
    while fronts := [task for (task,) in database.run("stale_fronts", limit=_AT_ONCE)]:
        ((over,),) = database.run("move_lines", ids=fronts)
        if over < len(fronts):
            break
    database.run("open_lines")
