"""``stoker gate close|open|show``: the operator's switch. Closed, nothing starts, and everybody knows why."""

from typing import Annotated, Optional

import typer

from stoker.orchestrator.cli_moves import actor
from stoker.orchestrator.session import Session, UsageError, say, say_json

gate = typer.Typer(
    no_args_is_help=True, help="The operator's switch.", context_settings={"help_option_names": ["-h", "--help"]}
)

Json = Annotated[bool, typer.Option("--json", help="JSON, for programs.")]
By = Annotated[Optional[str], typer.Option(help="Who; default: the user of this machine.")]  # noqa: UP045


def add_to(app: typer.Typer) -> None:
    """Add these commands to the command line."""
    app.add_typer(gate, name="gate")


@gate.command("close")
def close(context: typer.Context, reason: Annotated[str, typer.Option(help="Why, for everybody.")], by: By = None) -> None:
    """Let nothing start: no fire, no claim. Enqueueing goes on; what runs is finished; due slots are skipped.

    stoker gate close --reason "moving the database"
    """
    session: Session = context.obj
    if not reason.strip():
        raise UsageError("say why, for those who find it closed: --reason TEXT")
    if session.database.run("close_gate", actor=actor(by), reason=reason):
        say("the gate is closed; what runs is finished. To open it: stoker gate open")
    else:
        say(f"the gate is closed already: {why_closed(session)}")


@gate.command("open")
def open_(context: typer.Context, reason: Annotated[str, typer.Option(help="Why.")] = "", by: By = None) -> None:
    """Let things start again: stoker gate open."""
    session: Session = context.obj
    opened = session.database.run("open_gate", actor=actor(by), reason=reason or None)
    say("the gate is open" if opened else "the gate was open")


@gate.command("show")
def show(context: typer.Context, as_json: Json = False) -> None:
    """Whether it is closed, by whom, and why: stoker gate show."""
    words = why_closed(context.obj)
    if as_json:
        say_json({"closed": words is not None, "why": words})
    else:
        say(f"closed: {words}" if words else "open")


def why_closed(session: Session) -> str | None:
    """Who closed the gate, when and why; None while it is open."""
    for who, since, reason, _ in session.database.run("look_gate"):
        return f"{reason} ({who}, {since:%Y-%m-%d %H:%M} UTC)"
    return None
