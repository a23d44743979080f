"""One look after the other: gather, judge, open and resolve incidents, page.

The state is in the database, and in a file while that is away.

Two watchdogs send one page: whoever takes a page in the database sends it. What could not be looked at is neither missed nor
in order: it has an incident of its own, which each watchdog keeps in its file.
"""

import contextlib
import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from stoker.sql.database import Database, DatabaseUnreachableError, StatementError
from stoker.sql.environment import EnvironmentMismatchError, check_environment
from stoker.sql.units import format_duration
from stoker.watchdog.facts import Away, gather
from stoker.watchdog.judge import Finding, judge
from stoker.watchdog.pages import RESOLVE, TRIGGER, Page, PageError, Pager, request
from stoker.watchdog.settings import WatchdogSettings
from stoker.watchdog.silence import CRON

CANNOT_CHECK, COMPONENT = "database", "watchdog"


@dataclass(slots=True)
class Look:
    """What one look brought: what is wrong, how many pages went out, and which could not; None: it could not look, and why."""

    findings: list[Finding] | None
    sent: int = 0
    failures: list[str] = field(default_factory=list)
    why: str = ""


class Watch:
    """Looks when it is told to. ``state`` is the file that is kept while the database is away."""

    def __init__(
        self,
        database: Database,
        settings: WatchdogSettings,
        pager: Pager,
        state: Path,
        clock: Callable[[], float] = time.time,
        environment: str = "",
        *,
        by_cron: bool = False,
    ) -> None:
        self._database = database
        self._settings = settings
        self._pager = pager
        self._state = state
        self._clock = clock
        self._environment = environment
        self._by_cron = by_cron

    def close(self) -> None:
        """Let the database go."""
        self._database.close()

    def say_farewell(self) -> None:
        """Who ends in order is not missed by another watchdog."""
        with contextlib.suppress(DatabaseUnreachableError, StatementError):
            self._beat(0.0)

    def look(self) -> Look:
        """One look, its pages included."""
        self._ping("/start")
        try:
            look = self._looked()
        except (DatabaseUnreachableError, StatementError, EnvironmentMismatchError) as error:
            look = self._blind(str(error))
        self._ping("/fail" if look.findings is None or look.failures else "")
        return look

    def _looked(self) -> Look:
        settings, run = self._settings, self._database.run
        check_environment(self._database, self._environment, first=False)
        findings = judge(gather(self._database, settings, self._away()), settings)
        for one in findings:
            run("see_incident", cause=one.cause, words=one.words)
        run("resolve_incidents", causes=[one.cause for one in findings], quiet=settings.quiet_seconds)
        look = Look(findings)
        ((installation, *_),) = run("installation")
        self._see_again(look, str(installation))
        taken = run("take_pages", most=settings.pages_per_hour, repeat=settings.repeat_seconds)
        for incident, cause, words, opened_at, resolved_at, pages in taken:
            over = resolved_at is not None
            lasted = format_duration(round((resolved_at - opened_at).total_seconds())) if over else ""
            told = f"Over, after {lasted}: {words}" if over else words
            page = Page(RESOLVE if over else TRIGGER, cause, told, str(installation), pages + 1)
            try:
                self._pager.send(page)
            except PageError as error:
                look.failures.append(f"{cause}: {error}")
                run("page_failed", incident=incident, failure=str(error))
            else:
                look.sent += 1
                run("page_sent", incident=incident)
        self._beat(3 * settings.every_seconds)
        return look

    def _beat(self, expected: float) -> None:
        """One that cron calls has no pace of its own: the next may be twice as late as this one, and nobody misses it."""
        host = os.uname().nodename
        if self._by_cron:
            parameters = {"instance": host + CRON, "expected": expected, "modes": None, "gaps": 2.0}
            self._database.run("beat_starter", component=COMPONENT, **parameters)
        else:
            self._database.run("beat", component=COMPONENT, instance=f"{host}:{os.getpid()}", expected=expected)

    def _blind(self, why: str) -> Look:
        """The database cannot be asked: after a while that is told, again and again; the file remembers."""
        now, state = self._clock(), self._read()
        since = state.setdefault("since", now)
        paged = state.get("paged")
        look = Look(None, why=why)
        is_due = paged is None or now - paged > self._settings.repeat_seconds
        if now - since >= self._settings.unreachable_after_seconds and is_due:
            words = f"Cannot check: the database has not answered for {format_duration(round(now - since))}: {why}"
            try:
                self._pager.send(Page(TRIGGER, CANNOT_CHECK, words, state.get("installation", ""), state.get("pages", 0) + 1))
            except PageError as error:
                look.failures.append(f"{CANNOT_CHECK}: {error}")
            else:
                look.sent += 1
                state |= {"paged": now, "pages": state.get("pages", 0) + 1}
        self._write(state)
        return look

    def _see_again(self, look: Look, installation: str) -> None:
        """The database is there: what was told of it while it was not is resolved."""
        state = self._read()
        if state.get("paged") is not None:
            words = f"Over, after {format_duration(round(self._clock() - state['since']))}: the database answers again."
            try:
                self._pager.send(Page(RESOLVE, CANNOT_CHECK, words, state.get("installation", ""), state.get("pages", 0) + 1))
            except PageError as error:
                look.failures.append(f"{CANNOT_CHECK}: {error}")
                return
            look.sent += 1
        away = [state["since"], self._clock()] if "since" in state else state.get("away")
        kept = {"installation": installation, **({"away": away} if away else {})}
        if state != kept:
            self._write(kept)

    def _away(self) -> Away:
        """The last time that this watchdog could not ask the database; it goes on until now when this is the first answer."""
        now, state = self._clock(), self._read()
        began, ended = (state["since"], now) if "since" in state else state.get("away") or (now, now)
        return Away(now - began, now - ended)

    def _read(self) -> dict[str, Any]:
        """The file, or nothing when there is none that can be read: then what it would say begins anew."""
        with contextlib.suppress(OSError, ValueError):
            state = json.loads(self._state.read_text("utf-8"))
            if isinstance(state, dict):
                return state
        return {}

    def _write(self, state: dict[str, Any]) -> None:
        """The whole file, or the old one."""
        beside = self._state.with_suffix(f".{os.getpid()}")
        try:
            self._state.parent.mkdir(parents=True, exist_ok=True)
            beside.write_text(json.dumps(state), "utf-8")
            beside.replace(self._state)
        except OSError as error:
            sys.stderr.write(f"stoker-watchdog: {self._state} cannot be written: {error.strerror}\n")

    def _ping(self, suffix: str) -> None:
        """Tell the dead man's switch; that it cannot be told is its own alarm, elsewhere."""
        if self._settings.ping:
            try:
                request(self._settings.ping.rstrip("/") + suffix, None, {})
            except (PageError, OSError, ValueError) as error:
                sys.stderr.write(f"stoker-watchdog: the dead man's switch was not told: {error}\n")
