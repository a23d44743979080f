"""One fire, step by step.

0. close stranded fires of the lane; 1. admit; 2. sweep, and loops at_fire; 3. decide; 4. fan out; 5. barrier; 6. close, with
the note.
"""

import json
import uuid
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import anyio

from stoker.hygiene.close import REAPED, Seen, Terms, close_fire
from stoker.hygiene.identity import mine
from stoker.hygiene.restored import installation_of
from stoker.hygiene.sweep import Swept, sweep
from stoker.orchestrator import snapshot
from stoker.orchestrator.admission import Admission, Interlocks, Request, admit
from stoker.orchestrator.barrier import FENCED, Barrier
from stoker.orchestrator.config import Config
from stoker.orchestrator.decide import Plan, decide, for_one_task
from stoker.orchestrator.latch import Latch
from stoker.orchestrator.launchers.local import LocalLauncher
from stoker.orchestrator.logs import log
from stoker.orchestrator.muster import ceilings, code_version, muster
from stoker.orchestrator.progress import Progress
from stoker.orchestrator.settings import ScheduleSettings
from stoker.orchestrator.tell import tell_modes
from stoker.sql.database import Database
from stoker.worker.orders import Orders


@dataclass(frozen=True, slots=True)
class Ended:
    """How a call to fire ended: the fire's number, why it was refused if it was, whether this process closed it."""

    fire: int
    refusal: str | None = None
    closed: bool = False
    ended: str = ""
    signal_number: int = 0
    idle: str = ""


@dataclass(frozen=True, slots=True)
class Asked:
    """What the caller wants: a lane, a reason for people, some modes only, a key of its own, a schedule's due slot only.

    ``task``: one worker, for this one task of the only mode.
    """

    lane: str = "main"
    reason: str | None = None
    modes: frozenset[str] = frozenset()
    key: str | None = None
    schedule: ScheduleSettings | None = None
    task: int | None = None


class Fire:
    """Runs one fire on ``database`` under ``config``."""

    def __init__(
        self, database: Database, config: Config, environ: Mapping[str, str], asked: Asked, launcher: LocalLauncher
    ) -> None:
        self._database = database
        self._launcher = launcher
        self._config = config
        self._environ = environ
        self._asked = asked
        self._installation = installation_of(database)
        self._loops: list[dict[str, Any]] = []

    def run(self) -> Ended:
        """Run it to its note, or to its refusal. Raises what the database raises; hygiene closes what was left open."""
        swept = sweep(
            self._database,
            self._terms(REAPED),
            installation=self._installation,
            lane=self._asked.lane,
            keep_seconds=self._config.hygiene.keep_seconds,
        )
        latch = Latch()
        latch.hold()
        try:
            return self._opened(swept, latch)
        finally:
            latch.let_go()

    def _opened(self, swept: Swept, latch: Latch) -> Ended:
        """From its admission to its note: a signal that comes meanwhile ends it in order."""
        admission = self._admit()
        if admission.refusal is not None or admission.idle:
            return Ended(admission.fire, admission.refusal, idle=admission.idle)
        self._keep_loops(admission.fire, latch)
        plan, unserved = self._decide(admission.fire, swept)
        barrier = self._barrier(admission.fire, plan)
        barrier.told = latch.number
        ended = anyio.run(barrier.run, self._muster(admission.fire, plan)) if plan.workers else barrier.ended
        latch.hold()
        if ended == FENCED:
            return Ended(admission.fire, ended=FENCED)
        terms = replace(self._terms(ended), extra={"unserved": unserved, "stillborn": barrier.stillborn})
        closed = close_fire(self._database, Seen(admission.fire), terms)
        return Ended(admission.fire, closed=closed, ended=ended, signal_number=barrier.signal_number or latch.number)

    def _admit(self) -> Admission:
        config = self._config
        request = Request(
            key=self._asked.key or str(uuid.uuid4()),
            lane=self._asked.lane,
            reason=self._asked.reason,
            interlocks=interlocks(config),
            lease=config.hygiene.fire_lease_seconds,
            owner=asdict(mine()),
            code_version=code_version(config),
            gate=_gate(self._environ),
            schedule=self._asked.schedule,
            channels={name: one.send for name, one in config.notify.items()},
        )
        tell_modes(self._database, config)
        return admit(self._database, request)

    def _keep_loops(self, fire: int, latch: Latch) -> None:
        """Do each loop that belongs to a fire once, however it ends; the fire's lease is renewed meanwhile."""
        chosen = [one for one in self._config.loops.values() if one.at_fire] if self._asked.task is None else []
        if not chosen:
            return
        from stoker.orchestrator.loops import in_a_fire, orders_of

        lease = self._config.hygiene.fire_lease_seconds
        limit = self._config.limits.fire_deadline_seconds
        orders = [orders_of(self._config, one, self._environ, limit) for one in chosen]

        def renew() -> bool:
            return bool(self._database.run("renew_fire", fire=fire, closer=None, lease=lease))

        self._loops = [one.facts() for one in anyio.run(in_a_fire, orders, renew, lease / 3, lambda: latch.number != 0)]

    def _decide(self, fire: int, swept: Swept) -> tuple[Plan, list[tuple[str, int, int]]]:
        seen = snapshot.read(self._database, self._config, self._asked.modes)
        plan = decide(seen.backlogs, ceilings(self._config))
        if self._asked.task is not None:
            plan = for_one_task(seen.backlogs[0].mode, ceilings(self._config))
        repaired = json.dumps({**swept.facts(), "loops": self._loops})
        recorded = self._database.run("record_plan", fire=fire, plan=json.dumps(asdict(plan)), sweep=repaired)
        if not recorded:
            raise RuntimeError(f"fire {fire} was closed by somebody else while it planned")
        return plan, seen.unserved

    def _barrier(self, fire: int, plan: Plan) -> Barrier:
        progress = Progress(self._database, fire, plan.backlog)

        def say(event: str, level: str = "info", **facts: object) -> None:
            progress.clear()
            log(event, level, **facts)

        self._launcher.log = lambda event, level, facts: say(event, level, **facts)
        return Barrier(
            database=self._database,
            launcher=self._launcher,
            installation=self._installation,
            fire=fire,
            fire_lease=self._config.hygiene.fire_lease_seconds,
            worker_lease=self._config.worker.lease_seconds,
            fire_deadline=self._config.limits.fire_deadline_seconds,
            grace=self._config.worker.grace_seconds,
            reap_ghosts=self._config.hygiene.reap_ghosts,
            progress=progress,
            say=say,
        )

    def _muster(self, fire: int, plan: Plan) -> list[Orders]:
        orders = muster(self._config, self._database.target, self._environ, plan, fire, self._installation)
        return [replace(one, task=self._asked.task) for one in orders] if self._asked.task is not None else orders

    def _terms(self, ended: str) -> Terms:
        return Terms(
            ended,
            self._installation,
            fire_lease=self._config.hygiene.fire_lease_seconds,
            worker_lease=self._config.worker.lease_seconds,
            reap_ghosts=self._config.hygiene.reap_ghosts,
        )


def interlocks(config: Config) -> Interlocks:
    """The limits that admission holds."""
    limits = config.limits
    return Interlocks(
        limits.fires_per_day,
        limits.min_gap_seconds or 0.0,
        limits.max_pool,
        limits.task_cap,
        limits.wall_clock_seconds,
        limits.fire_deadline_seconds,
        limits.timezone,
    )


def _gate(environ: Mapping[str, str]) -> str | None:
    """Why the gate is closed on this host; None while it is open."""
    return "STOKER_ENABLED is false" if environ.get("STOKER_ENABLED", "").lower() in ("false", "0", "no") else None
