"""The one incident that cannot be kept in the database: that it cannot be asked. A file keeps it, for each watchdog its own.

What could not be looked at is neither missed nor in order. What is due to be told is kept before it is sent, and what came of
it after: whoever acknowledges meanwhile is not overwritten, and a channel that was being told when all died is told of the end.
"""

import threading
import time
import uuid
from pathlib import Path
from typing import Any

from stoker.sql.units import format_duration
from stoker.watchdog.channels import TIMEOUT_SECONDS, Pager
from stoker.watchdog.delivery import Delivered
from stoker.watchdog.facts import Away
from stoker.watchdog.kept import Kept, State
from stoker.watchdog.pages import ACKNOWLEDGE, ESCALATE, RESOLVE, TRIGGER, NotTaken, Page
from stoker.watchdog.settings import WatchdogSettings

CAUSE = "database"
_OVER = ("since", "why", "paged", "escalated", "acked")


class Blindness:
    """Told of each look that was none, and of the first that was one again; ``now`` is in seconds, by this host's clock."""

    def __init__(self, path: Path, settings: WatchdogSettings, pager: Pager) -> None:
        self._kept = Kept(path)
        self._settings = settings
        self._pager = pager
        self._sending: dict[str, threading.Thread] = {}
        self._lock = threading.Lock()
        self._tried: list[tuple[str, NotTaken | None]] = []

    @property
    def trouble(self) -> str:
        """Why the file could not be written, when last tried; this process still knows what would be in it."""
        return self._kept.trouble

    def begin(self, why: str, now: float) -> Delivered:
        """It could not be asked: after a while that is told, again and again, and more loudly when nobody takes it."""
        settings = self._settings
        with self._kept.changing() as state:
            since = state["since"] = min(state.get("since", now), now)
            state["why"] = why[:500]
            is_old = settings.escalate_after_seconds is not None and now - since >= settings.escalate_after_seconds
            paged = state.get("paged")
            is_due = paged is None or now - paged > settings.repeat_seconds or (is_old and not state.get("escalated"))
            if now - since >= settings.unreachable_after_seconds and is_due and not state.get("acked"):
                words = f"Cannot check: the database has not answered for {format_duration(round(now - since))}: {why}"
                action = ESCALATE if is_old else TRIGGER
                state |= {"paged": now, "escalated": is_old}
                _write_page(state, action, words, self._pager.receivers(action))
        return self._deliver()

    def end(self, installation: str, now: float) -> Delivered:
        """It answers: what was told is resolved, by the channels that took it, or may have."""
        with self._kept.changing() as state:
            state["installation"] = installation
            if "since" in state:
                words = f"Over, after {format_duration(round(now - state['since']))}: the database answers again."
                state["away"] = [state["since"], now]
                _write_page(state, RESOLVE, words, _heard(state))
                for name in _OVER:
                    state.pop(name, None)
            _forget_delivered(state)
        return self._deliver()

    def acknowledge(self, who: str, why: str, now: float) -> bool:
        """Somebody has taken it; False when there is nothing to take, or it is taken, or the file cannot be written."""
        with self._kept.changing() as state:
            if "since" not in state or state.get("acked"):
                return False
            state["acked"] = {"by": who, "at": now, "reason": why}
            told = [name for name in self._pager.receivers(ACKNOWLEDGE) if name in _heard(state)]
            _write_page(state, ACKNOWLEDGE, f"Acknowledged by {who}: {why}", told)
        if self.trouble:
            return False
        self._deliver()
        return True

    def shown(self) -> dict[str, Any] | None:
        """The incident, if it is open."""
        state = self._kept.read()
        return state if "since" in state else None

    def away(self, now: float) -> Away:
        """The last time that the database could not be asked; it goes on until now when this is the first answer."""
        state = self._kept.read()
        began, ended = (state["since"], now) if "since" in state else state.get("away") or (now, now)
        return Away(now - began, now - ended)

    def _deliver(self) -> Delivered:
        """By all channels at once; one that hangs is waited for as long as a page may take, and asked when it has let go."""
        hanging = {name for name, thread in self._sending.items() if thread.is_alive()}
        with self._kept.changing() as state:
            written = state.get("page")
            if not written:
                return Delivered()
            written["waiting"] = [name for name in written["waiting"] if name in self._pager.channels]
            going = [name for name in written["waiting"] if name not in hanging]
            state["told"] = _heard(state)
            state["sending"] = going
            facts = (written["words"], state.get("installation", ""), written["delivery_id"], written["number"])
            page = Page(written["action"], CAUSE, *facts)
        until = time.monotonic() + TIMEOUT_SECONDS
        for name in going:
            self._sending[name] = threading.Thread(target=self._send, args=(name, page), name=f"page by {name}", daemon=True)
            self._sending[name].start()
        for thread in self._sending.values():
            thread.join(max(0.0, until - time.monotonic()))
        still = [f"{name}: is still sending" for name, thread in self._sending.items() if thread.is_alive()]
        with self._lock:
            tried, self._tried = self._tried, []
        failures = [f"{name}: {refused}" for name, refused in tried if refused] + still
        return Delivered(int(any(refused is None for _, refused in tried)), failures)

    def _send(self, name: str, page: Page) -> None:
        refused = self._pager.tell(name, page)
        with self._lock:
            self._tried.append((name, refused))
        with self._kept.changing() as state:
            state["sending"] = [one for one in state.get("sending", []) if one != name]
            told, written = {*state.get("told", [])}, state.get("page", {})
            is_newest = written.get("delivery_id") == page.delivery_id
            if refused is None and is_newest:
                written["waiting"] = [one for one in written["waiting"] if one != name]
            if page.action != RESOLVE and (refused is None or refused.in_doubt):
                told.add(name)
            elif refused is None and is_newest:
                told.discard(name)
            state["told"] = sorted(told)
            _forget_delivered(state)


def _heard(state: State) -> list[str]:
    """The channels that took a page of it, or may have: also those that were being told when whoever told them died."""
    return sorted({*state.get("told", []), *state.get("sending", [])})


def _write_page(state: State, action: str, words: str, channels: list[str]) -> None:
    state["pages"] = state.get("pages", 0) + 1
    state["page"] = {
        "action": action,
        "words": words,
        "delivery_id": str(uuid.uuid4()),
        "number": state["pages"],
        "waiting": list(channels),
    }


def _forget_delivered(state: State) -> None:
    """Of what is over, and told to be over, nothing is kept but when it was."""
    written = state.get("page")
    if written and written["action"] == RESOLVE and not written["waiting"]:
        del state["page"]
    if "page" not in state and "since" not in state:
        for name in ("pages", "told", "sending"):
            state.pop(name, None)
