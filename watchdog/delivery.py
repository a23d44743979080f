"""From incidents to pages that were taken: who is to be told is written in the database, then each channel sends on its own.

A channel that fails is left alone until the next look, keeps no other back, and gets what it has missed: of each incident the
newest page. One that hangs is not waited for; it is asked again when it has let go. Pages have a delivery id, the same at every
try, since a try that was cut off may have arrived.
"""

import threading
import time
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from stoker.sql.database import Database, DatabaseUnreachableError, StatementError, Transaction
from stoker.sql.units import format_duration
from stoker.watchdog.channels import TIMEOUT_SECONDS, Pager
from stoker.watchdog.pages import ACKNOWLEDGE, RESOLVE, NotTaken, Page
from stoker.watchdog.settings import WatchdogSettings

_ROUND_SECONDS = 20.0  # no page is begun after so long, so that looks go on


@dataclass(slots=True)
class Delivered:
    """How many pages at least one channel took, and which channel did not take which, and why."""

    sent: int = 0
    failures: list[str] = field(default_factory=list)


def write_pages(database: Database, settings: WatchdogSettings, pager: Pager) -> None:
    """Write down what is due to be told; what is too much for one hour is due in the next."""

    def write(tx: Transaction) -> None:
        tx.run("lock_pages")
        tx.run("close_pages")
        tx.run(
            "open_pages",
            most=settings.pages_per_hour,
            repeat=settings.repeat_seconds,
            grace=settings.grace_seconds,
            escalate=settings.escalate_after_seconds,
            channels=pager.first,
            second=pager.second,
        )

    database.in_transaction(write, repeatable=True)


class Deliverer:
    """Sends what waits for the channels of this process, all of them at once, one page after the other by each."""

    def __init__(self, database: Database, pager: Pager) -> None:
        self._database = database
        self._pager = pager
        self._sending: dict[str, threading.Thread] = {}
        self._lock = threading.Lock()
        self._tried: list[tuple[str, int, str | None]] = []

    def deliver(self, installation: str, incident: int | None = None) -> Delivered:
        """Send what waits, of one incident or of all; raises nothing that a channel does."""
        until = time.monotonic() + _ROUND_SECONDS
        hanging = [name for name, thread in self._sending.items() if thread.is_alive()]
        for name in self._pager.channels:
            if name not in hanging:
                facts = (name, installation, incident, until)
                self._sending[name] = threading.Thread(target=self._send, args=facts, name=f"page by {name}", daemon=True)
                self._sending[name].start()
        for thread in self._sending.values():
            thread.join(max(0.0, until + TIMEOUT_SECONDS - time.monotonic()))
        still = [f"{name}: is still sending" for name, thread in self._sending.items() if thread.is_alive()]
        with self._lock:
            tried, self._tried = self._tried, []
        sent = len({page for _, page, why in tried if why is None})
        return Delivered(sent, [f"{name}: {why}" for name, _, why in tried if why is not None] + still)

    def _send(self, name: str, installation: str, incident: int | None, until: float) -> None:
        page, why = 0, None
        try:
            while time.monotonic() < until and why is None:
                rows = self._database.run("take_page", channel=name, incident=incident)
                if not rows:
                    return
                page, attempt = rows[0][0], rows[0][-1]
                refused = self._pager.tell(name, _page(rows[0], installation))
                self._record(name, page, attempt, refused)
                why = refused.why if refused else None
                self._keep(name, page, why)
        except (DatabaseUnreachableError, StatementError) as error:
            self._keep(name, page, f"the database: {error}")

    def _keep(self, name: str, page: int, why: str | None) -> None:
        """What a channel that was waited for in vain came to is told with the next look."""
        with self._lock:
            self._tried.append((name, page, why))

    def _record(self, name: str, page: int, attempt: int, refused: NotTaken | None) -> None:
        if refused is None:
            self._database.run("page_taken", page=page, channel=name)
        else:
            facts = {"page": page, "channel": name, "attempt": attempt}
            self._database.run("page_failed", failure=refused.why, in_doubt=refused.in_doubt, **facts)


def _page(row: tuple[Any, ...], installation: str) -> Page:
    _, action, cause, words, number, delivery_id, opened_at, resolved_at, _ = row
    if action == RESOLVE:
        words = f"Over, after {lasted(opened_at, resolved_at)}: {words}"
    elif action == ACKNOWLEDGE:
        words = f"Acknowledged by {words}"
    return Page(action, cause, words, installation, delivery_id, number)


def lasted(since: datetime, until: datetime) -> str:
    """How long, for people."""
    return format_duration(round(max((until - since).total_seconds(), 0.0)))
