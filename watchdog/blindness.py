"""The one incident that cannot be kept in the database: that it cannot be asked. A file keeps it, for each watchdog its own.

What could not be looked at is neither missed nor in order. The file is replaced as a whole; one that cannot be read begins
anew, and is never taken for "all is well".
"""

import contextlib
import json
import os
import sys
import uuid
from pathlib import Path
from typing import Any

from stoker.sql.units import format_duration
from stoker.watchdog.channels import Pager
from stoker.watchdog.delivery import Delivered
from stoker.watchdog.facts import Away
from stoker.watchdog.pages import ACKNOWLEDGE, ESCALATE, RESOLVE, TRIGGER, Page
from stoker.watchdog.settings import WatchdogSettings

CAUSE = "database"


class Blindness:
    """Told of each look that was none, and of the first that was one again; ``now`` is in seconds, by this host's clock."""

    def __init__(self, path: Path, settings: WatchdogSettings, pager: Pager) -> None:
        self._path = path
        self._settings = settings
        self._pager = pager

    def begin(self, why: str, now: float) -> Delivered:
        """It could not be asked: after a while that is told, again and again, and more loudly when nobody takes it."""
        state, settings = self._read(), self._settings
        since = state.setdefault("since", now)
        state["why"] = why[:500]
        is_old = settings.escalate_after_seconds is not None and now - since >= settings.escalate_after_seconds
        paged = state.get("paged")
        is_due = paged is None or now - paged > settings.repeat_seconds or (is_old and not state.get("escalated"))
        if now - since >= settings.unreachable_after_seconds and is_due and not state.get("acked"):
            words = f"Cannot check: the database has not answered for {format_duration(round(now - since))}: {why}"
            action = ESCALATE if is_old else TRIGGER
            state |= {"paged": now, "escalated": is_old}
            self._write_page(state, action, words, self._pager.receivers(action))
        done = self._deliver(state)
        self._write(state)
        return done

    def end(self, installation: str, now: float) -> Delivered:
        """It answers: what was told is resolved, by the channels that took it."""
        state, done = self._read(), Delivered()
        if "since" in state:
            words = f"Over, after {format_duration(round(now - state['since']))}: the database answers again."
            state["away"] = [state.pop("since"), now]
            self._write_page(state, RESOLVE, words, state.get("told", []))
        if state.get("page"):
            done = self._deliver(state)
        kept = {"installation": installation, **({"away": state["away"]} if state.get("away") else {})}
        if state.get("page") and state["page"]["waiting"]:
            kept |= {"page": state["page"], "pages": state["pages"], "told": state["page"]["waiting"]}
        if kept != self._read():
            self._write(kept)
        return done

    def acknowledge(self, who: str, why: str, now: float) -> bool:
        """Somebody has taken it; False when there is nothing to take, or it is taken."""
        state = self._read()
        if "since" not in state or state.get("acked"):
            return False
        state["acked"] = {"by": who, "at": now, "reason": why}
        told = [name for name in self._pager.receivers(ACKNOWLEDGE) if name in state.get("told", [])]
        self._write_page(state, ACKNOWLEDGE, f"Acknowledged by {who}: {why}", told)
        self._deliver(state)
        self._write(state)
        return True

    def shown(self) -> dict[str, Any] | None:
        """The incident, if it is open."""
        state = self._read()
        return state if "since" in state else None

    def away(self, now: float) -> Away:
        """The last time that the database could not be asked; it goes on until now when this is the first answer."""
        state = self._read()
        began, ended = (state["since"], now) if "since" in state else state.get("away") or (now, now)
        return Away(now - began, now - ended)

    def _write_page(self, state: dict[str, Any], action: str, words: str, channels: list[str]) -> None:
        state["pages"] = state.get("pages", 0) + 1
        state["page"] = {
            "action": action,
            "words": words,
            "delivery_id": str(uuid.uuid4()),
            "number": state["pages"],
            "waiting": list(channels),
        }

    def _deliver(self, state: dict[str, Any]) -> Delivered:
        done, written = Delivered(), state.get("page")
        if not written:
            return done
        installation, numbers = state.get("installation", ""), (written["delivery_id"], written["number"])
        page = Page(written["action"], CAUSE, written["words"], installation, *numbers)
        for name in list(written["waiting"]):
            why = self._pager.tell(name, page) if name in self._pager.channels else None
            if why is not None:
                done.failures.append(f"{name}: {why}")
                continue
            written["waiting"].remove(name)
            state["told"] = sorted({*state.get("told", []), name})
            done.sent = 1
        return done

    def _read(self) -> dict[str, Any]:
        with contextlib.suppress(OSError, ValueError):
            state = json.loads(self._path.read_text("utf-8"))
            if isinstance(state, dict):
                return state
        return {}

    def _write(self, state: dict[str, Any]) -> None:
        """The whole file, or the old one."""
        beside = self._path.with_suffix(f".{os.getpid()}")
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            beside.write_text(json.dumps(state), "utf-8")
            beside.replace(self._path)
        except OSError as error:
            sys.stderr.write(f"stoker-watchdog: {self._path} cannot be written: {error.strerror}\n")
