"""One look after the other: gather, judge, open and resolve incidents, page.

The state is in the database: two watchdogs open one incident and write one page, and whoever takes it in the database sends it.
What could not be looked at is neither missed nor in order: it has an incident of its own (blindness.py).
"""

import contextlib
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from stoker.sql.database import Database, DatabaseUnreachableError, StatementError
from stoker.sql.environment import EnvironmentMismatchError, check_environment
from stoker.watchdog.blindness import Blindness
from stoker.watchdog.channels import Pager
from stoker.watchdog.delivery import Deliverer, write_pages
from stoker.watchdog.facts import gather
from stoker.watchdog.judge import Finding, judge
from stoker.watchdog.settings import WatchdogSettings
from stoker.watchdog.silence import CRON
from stoker.watchdog.switch import Switch

COMPONENT = "watchdog"


@dataclass(slots=True)
class Look:
    """What one look brought: what is wrong, how many pages went out, and which could not; None: it could not look, and why.

    ``unkept``: why that the database is away could not be written to the file that keeps it.
    """

    findings: list[Finding] | None
    sent: int = 0
    failures: list[str] = field(default_factory=list)
    why: str = ""
    unkept: str = ""

    @property
    def is_well(self) -> bool:
        """Nothing is wrong, and everybody was told of what was."""
        return self.findings == [] and not self.failures and not self.unkept


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
        locate: Callable[[], None] = lambda: None,
    ) -> None:
        """``locate`` is asked before each look for where the database is by now."""
        self._database = database
        self._settings = settings
        self._pager = pager
        self._blindness = Blindness(state, settings, pager)
        self._deliverer = Deliverer(database, pager)
        self._switch = Switch(settings.ping)
        self._clock = clock
        self._environment = environment
        self._by_cron = by_cron
        self._locate = locate
        self._is_ours = self._was_ours = False
        host = os.uname().nodename
        self._me = host + CRON if by_cron else f"{host}:{os.getpid()}"

    def close(self) -> None:
        """Let the database go."""
        self._database.close()

    def say_farewell(self) -> None:
        """Who ends in order is not missed by another watchdog; in a schema of another environment nothing is written."""
        if not self._is_ours:
            return
        with contextlib.suppress(DatabaseUnreachableError, StatementError):
            self._beat(0.0)

    def look(self) -> Look:
        """One look, its pages included. Raises EnvironmentMismatchError when the schema never was this environment's."""
        self._switch.tell("/start")
        try:
            look = self._looked()
        except EnvironmentMismatchError as error:
            self._is_ours = False
            if not self._was_ours:
                self._switch.tell("/fail")
                raise
            look = self._blind(str(error))
        except (DatabaseUnreachableError, StatementError) as error:
            look = self._blind(str(error))
        look.unkept = self._blindness.trouble
        self._switch.tell("/fail" if look.findings is None or look.failures or look.unkept else "")
        return look

    def _looked(self) -> Look:
        """What was away is over only when all of it went well: else each look would begin it anew, and nobody would hear."""
        settings, run = self._settings, self._database.run
        self._locate()
        check_environment(self._database, self._environment, first=False)
        self._is_ours = self._was_ours = True
        run("remove_drills")
        facts = gather(self._database, settings, self._blindness.away(self._clock()), self._me)
        if facts.is_restored:
            run("forget_told")
        findings = judge(facts, settings)
        for one in findings:
            run("see_incident", cause=one.cause, words=one.words)
        run("resolve_incidents", causes=[one.cause for one in findings], quiet=settings.quiet_seconds)
        ((installation, *_),) = run("installation")
        write_pages(self._database, settings, self._pager)
        done = self._deliverer.deliver(str(installation))
        self._beat(3 * settings.every_seconds)
        seen_again = self._blindness.end(str(installation), self._clock())
        look = Look(findings, done.sent + seen_again.sent, seen_again.failures + done.failures)
        if findings and not self._pager.channels:
            look.failures.append("no channel is configured in [watchdog]")
        return look

    def _blind(self, why: str) -> Look:
        done = self._blindness.begin(why, self._clock())
        return Look(None, done.sent, done.failures, why)

    def _beat(self, expected: float) -> None:
        """One that cron calls has no pace of its own: the next may be twice as late as this one, and nobody misses it."""
        if self._by_cron:
            parameters = {"instance": self._me, "expected": expected, "modes": None, "gaps": 2.0}
            self._database.run("beat_starter", component=COMPONENT, **parameters)
        else:
            self._database.run("beat", component=COMPONENT, instance=self._me, expected=expected)
