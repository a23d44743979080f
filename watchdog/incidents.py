"""What is wrong, for people: the list of it, and who has taken what upon themselves."""

from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from stoker.sql.database import Database, Transaction
from stoker.watchdog.channels import PROGRAMS

_MOST = 1000


@dataclass(frozen=True, slots=True)
class Incident:
    """One cause, from when it was found until it was over; ``failing``: the channels that did not take its newest page."""

    incident: int
    cause: str
    words: str
    opened_at: datetime
    resolved_at: datetime | None
    pages: int
    paged_at: datetime | None
    escalated_at: datetime | None
    acked_by: str | None
    acked_at: datetime | None
    ack_reason: str | None
    failing: dict[str, dict[str, Any]]

    def as_json(self) -> dict[str, Any]:
        """For programs."""
        return {name: value.isoformat() if isinstance(value, datetime) else value for name, value in asdict(self).items()}

    def lines(self) -> list[str]:
        """For people: what, since when, who was told, and who has taken it."""
        until = f", over at {_at(self.resolved_at)}" if self.resolved_at else ""
        told = f"told {self.pages} time(s), last at {_at(self.paged_at)}" if self.paged_at else "nobody was told yet"
        told += ", escalated" if self.escalated_at else ""
        found = [f"{self.cause}: since {_at(self.opened_at)}{until}; {told}", f"    {self.words}"]
        if self.acked_by:
            found.append(f"    acknowledged by {self.acked_by} at {_at(self.acked_at)}: {self.ack_reason}")
        for channel, how in self.failing.items():
            found.append(f"    {channel} did not take its last page, tried {how['attempts']} time(s): {how['failure']}")
        return found


def incidents(database: Database, *, all_of_them: bool) -> list[Incident]:
    """Those that are open, or all that are kept, the newest first."""
    return database.rows(Incident, "list_incidents", all=all_of_them, limit=_MOST)


def acknowledge(database: Database, cause: str, who: str, why: str) -> int | None:
    """Take an open incident that nobody has; its number, or None when there is none."""

    def ack(tx: Transaction) -> int | None:
        tx.run("lock_pages")
        rows = tx.run("ack_incident", cause=cause, actor=who, reason=why, programs=list(PROGRAMS))
        return int(rows[0][0]) if rows else None

    return database.in_transaction(ack, repeatable=False)


def _at(instant: datetime | None) -> str:
    return instant.astimezone().strftime("%Y-%m-%d %H:%M:%S %Z") if instant else "never"
