"""``stoker restored``: the one command to run after a restore from a dump, before anything fires."""

from dataclasses import asdict
from typing import Annotated, Optional

import typer

from stoker.orchestrator.cli_moves import actor
from stoker.orchestrator.session import Session, UsageError, say, say_json


def add_to(app: typer.Typer) -> None:
    """Add this command to the command line."""
    app.command()(restored)


def restored(
    context: typer.Context,
    copy: Annotated[bool, typer.Option("--copy", help="A copy beside the original: it gets an identity of its own.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Also if somebody of the dump is alive on this host.")] = False,
    by: Annotated[Optional[str], typer.Option(help="Who does it; default: the user of this system.")] = None,  # noqa: UP045
    as_json: Annotated[bool, typer.Option("--json", help="JSON, for programs.")] = False,
) -> None:
    """After a restore from a dump, before anything fires: quarantine what was running when the dump was made.

    Started tasks are held with a question, side effects become unknown, unstarted tasks go back; every worker is buried,
    every open fire closed with a note. See them: stoker tasks ls --state held. Let one run again: stoker tasks resume ID.

    stoker restored
    """
    from stoker.hygiene.close import Terms
    from stoker.hygiene.restored import RESTORED, StillAliveError, quarantine

    session: Session = context.obj
    config, database = session.config, session.database
    ((installation, *_),) = database.run("installation")
    terms = Terms(
        RESTORED,
        str(installation),
        fire_lease=config.hygiene.fire_lease_seconds,
        worker_lease=config.worker.lease_seconds,
        reap_ghosts=False,
    )
    try:
        done = quarantine(database, terms, actor=actor(by), force=force, is_copy=copy)
    except StillAliveError as error:
        raise UsageError(str(error)) from None
    if as_json:
        say_json(asdict(done))
        return
    say(
        f"buried {done.workers} worker(s), closed {done.fires} fire(s); of the tasks they had, {done.held:,} are held,"
        f" {done.unknown:,} unknown, {done.cancelled:,} cancelled, {done.unstarted:,} queued again"
        f"; {done.messages:,} message(s) that waited to be delivered are held"
    )
