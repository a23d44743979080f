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
from stoker.watchdog.pages import ACKNOWLEDGE, RESOLVE, Page
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

    def deliver(self, installation: str, incident: int | None = None) -> Delivered:
        """Send what waits, of one incident or of all; raises nothing that a channel does."""
        taken: dict[int, dict[str, str | None]] = {}
        until = time.monotonic() + _ROUND_SECONDS
        hanging = [name for name, thread in self._sending.items() if thread.is_alive()]
        for name in self._pager.channels:
            if name not in hanging:
                facts = (name, installation, incident, until, taken)
                self._sending[name] = threading.Thread(target=self._send, args=facts, name=f"page by {name}", daemon=True)
                self._sending[name].start()
        for thread in self._sending.values():
            thread.join(max(0.0, until + TIMEOUT_SECONDS - time.monotonic()))
        done = Delivered(sum(None in by.values() for by in taken.values()))
        done.failures = [f"{name}: {why}" for by in list(taken.values()) for name, why in by.items() if why is not None]
        done.failures += [f"{name}: is still sending" for name, thread in self._sending.items() if thread.is_alive()]
        return done

    def _send(
        self, name: str, installation: str, incident: int | None, until: float, taken: dict[int, dict[str, str | None]]
    ) -> None:
        try:
            while time.monotonic() < until:
                rows = self._database.run("take_page", channel=name, incident=incident)
                if not rows:
                    return
                page, why = rows[0][0], self._pager.tell(name, _page(rows[0], installation))
                if why is None:
                    self._database.run("page_taken", page=page, channel=name)
                else:
                    self._database.run("page_failed", page=page, channel=name, failure=why)
                taken.setdefault(page, {})[name] = why
                if why is not None:
                    return
        except (DatabaseUnreachableError, StatementError) as error:
            taken.setdefault(0, {})[name] = f"the database: {error}"


def _page(row: tuple[Any, ...], installation: str) -> Page:
    _, action, cause, words, number, delivery_id, opened_at, resolved_at = row
    if action == RESOLVE:
        words = f"Over, after {lasted(opened_at, resolved_at)}: {words}"
    elif action == ACKNOWLEDGE:
        words = f"Acknowledged by {words}"
    return Page(action, cause, words, installation, delivery_id, number)


def lasted(since: datetime, until: datetime) -> str:
    """How long, for people."""
    return format_duration(round(max((until - since).total_seconds(), 0.0)))
