"""``stoker run`` and ``stoker schedule``: what stands."""

import os
import sys
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

import typer

from stoker.orchestrator.session import Session, UsageError

if TYPE_CHECKING:
    from stoker.orchestrator.beats import Pulse
    from stoker.sql.database import Database

SWEEP_SECONDS = 60.0
TO_FINISH_SECONDS = 10.0  # for what is being sent when the command is told to stop


def add_to(app: typer.Typer) -> None:
    """Add these commands to the command line."""
    app.command()(run)
    app.command()(schedule)


def run(context: typer.Context) -> None:
    """Stay: sweep every minute, fire when a slot of a schedule is due, deliver notes, keep [[loops]].

    SIGTERM ends it, and its fires.
    """
    import anyio

    from stoker.hygiene.restored import RestoredError
    from stoker.orchestrator.beats import Pulse
    from stoker.orchestrator.delivery import Delivery
    from stoker.orchestrator.loops import loops_of
    from stoker.orchestrator.runtime import BROKEN, CoreLoopError, Loop, Runtime, Standing
    from stoker.orchestrator.schedule import Clock
    from stoker.orchestrator.tell import modes_of_schedules
    from stoker.sql.database import Database

    session: Session = context.obj
    schedules = session.config.schedules
    target = session.database.target

    def another() -> Database:
        return Database(target, patience_seconds=5.0)

    sweeping, pulse = another(), Pulse()
    modes = modes_of_schedules(session.config)
    clock = Clock(another(), schedules, str(session.config.path), modes, pulse) if schedules else None
    loops: list[Standing] = [Loop("sweep", SWEEP_SECONDS, lambda: _swept(session, sweeping))]
    delivery = Delivery(another(), session.config, os.environ)
    if session.config.notify:
        loops.append(Loop("delivery", session.config.delivery.every_seconds, lambda: delivery.work(1.0), core=False))
    loops += loops_of(session.config, os.environ)
    runtime = Runtime(another(), loops, clock, _probes(session, pulse), pulse)
    try:
        anyio.run(runtime.run)
        delivery.wait(TO_FINISH_SECONDS)
    except CoreLoopError as error:
        if isinstance(error.__cause__, RestoredError):
            raise error.__cause__ from None
        sys.stderr.write(f"stoker: {error}; nothing works without it, so everything was stopped\n")
        raise typer.Exit(BROKEN) from None


def schedule(context: typer.Context) -> None:
    """Stay, and start a fire whenever a slot of a schedule is due; SIGTERM ends it, and the fires it started."""
    import anyio

    from stoker.orchestrator.runtime import Runtime
    from stoker.orchestrator.schedule import Clock
    from stoker.orchestrator.tell import modes_of_schedules

    session: Session = context.obj
    if not session.config.schedules:
        raise UsageError("no [[schedules]] is configured")
    modes = modes_of_schedules(session.config)
    clock = Clock(session.database, session.config.schedules, str(session.config.path), modes)
    anyio.run(Runtime(session.database, [], clock).run)


def _probes(session: Session, pulse: "Pulse") -> "Callable[[], Coroutine[Any, Any, None]] | None":
    """What answers probes, if an address is configured; its own connection gives up soon, so that an answer comes in time."""
    from stoker.orchestrator.probes import Probes
    from stoker.orchestrator.readiness import look
    from stoker.sql.database import Database

    if not session.config.runtime.http:
        return None
    asking = Database(session.database.target, patience_seconds=1.0)
    return Probes(session.config.runtime.http, pulse, lambda: look(asking, session.config, briefly=True)).serve


def _swept(session: Session, database: "Database") -> int:
    """One sweep; how much it repaired."""
    from stoker.orchestrator.sweeping import sweep_now

    facts = sweep_now(session.config, database)
    return sum(value if isinstance(value, int) else len(value) for value in facts.values() if isinstance(value, int | list))
