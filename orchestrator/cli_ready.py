"""``stoker ready``: whether what is configured would be done, by whichever hosts there are."""

from typing import Annotated, Any

import typer

from stoker.orchestrator.session import Session, say, say_json, say_table

UNREADY = 1
Json = Annotated[bool, typer.Option("--json", help="JSON, for programs.")]


def add_to(app: typer.Typer) -> None:
    """Add this command to the command line."""
    app.command()(ready)


def ready(context: typer.Context, as_json: Json = False) -> None:
    """Whether living processes cover every mode, schedule and loop that is configured; exit code 0 if so, else 1.

    stoker ready --json
    """
    from stoker.orchestrator.readiness import look
    from stoker.sql.database import DatabaseUnreachableError

    session: Session = context.obj
    try:
        facts = look(session.database, session.config).facts()
    except DatabaseUnreachableError as error:
        facts = {"ready": False, "missing": [f"the database cannot be reached: {error}"], "remarks": [], "processes": []}
    if as_json:
        say_json(facts)
    else:
        _show(facts)
    if not facts["ready"]:
        raise typer.Exit(UNREADY)


def _show(facts: dict[str, Any]) -> None:
    say("ready" if facts["ready"] else "not ready")
    for text in facts["missing"]:
        say(f"- {text}")
    for text in facts["remarks"]:
        say(f"  {text}")
    rows = [
        (one["component"], one["instance"], f"{one['seconds']:.0f} s ago", "late" if one["is_late"] else "")
        for one in facts["processes"]
    ]
    if rows:
        say_table(("what stands", "where", "heard of", ""), rows)
