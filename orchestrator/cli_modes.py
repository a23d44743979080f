"""``stoker pause`` and ``unpause``, ``events`` and ``explain``."""

from typing import Annotated, Any, Optional

import typer

from stoker.orchestrator.cli_moves import actor
from stoker.orchestrator.session import Session, UsageError, say, say_json, say_table

Json = Annotated[bool, typer.Option("--json", help="JSON, for programs.")]
By = Annotated[Optional[str], typer.Option(help="Who asks; default: the user of this system.")]  # noqa: UP045
_NAMES = ("event", "at", "actor", "action", "task", "mode", "reason", "detail")


def add_to(app: typer.Typer) -> None:
    """Add these commands to the command line."""
    for command in (pause, unpause, events, explain):
        app.command()(command)


def pause(
    context: typer.Context,
    mode: str,
    reason: Annotated[str, typer.Option(help="Why; it is shown wherever the mode is.")],
    by: By = None,
) -> None:
    """Stop a mode: nothing of it is planned or claimed until it is unpaused. What runs is finished.

    stoker pause resize --reason "the disk is full"
    """
    session: Session = context.obj
    known = {*session.config.modes, *(name for (name,) in session.database.run("known_modes"))}
    if mode not in known:
        raise UsageError(f"there is no mode {mode!r}; there are: {', '.join(sorted(known)) or 'none'}")
    if not session.database.run("pause_mode", mode=mode, actor=actor(by), reason=reason):
        say(f"{mode} is paused already: {paused(session).get(mode, '')}")
        return
    say(f"{mode} is paused; what runs is finished. To go on: stoker unpause {mode}")


def unpause(
    context: typer.Context,
    mode: str,
    reason: Annotated[Optional[str], typer.Option(help="Why, for the events.")] = None,  # noqa: UP045
    by: By = None,
) -> None:
    """Let a paused mode go on: stoker unpause resize."""
    session: Session = context.obj
    if session.database.run("unpause_mode", mode=mode, actor=actor(by), reason=reason):
        say(f"{mode} is not paused any more")
    else:
        say(f"{mode} is not paused; paused are: {', '.join(paused(session)) or 'none'}")


def paused(session: Session) -> dict[str, str]:
    """The paused modes: by whom, since when, and why, in words."""
    return {
        mode: f"paused by {by} since {since:%Y-%m-%d %H:%M}: {reason}"
        for mode, by, reason, since in session.database.run("list_paused")
    }


def events(
    context: typer.Context,
    task: Annotated[Optional[int], typer.Option(help="Only those of this task.")] = None,  # noqa: UP045
    limit: Annotated[int, typer.Option(min=0, help="At most so many.")] = 50,
    as_json: Json = False,
) -> None:
    """What people did, newest first: stoker events --task 17."""
    rows = context.obj.database.run("list_events", task=task, limit=limit)
    if as_json:
        say_json(as_facts(rows))
        return
    show_events(rows)


def as_facts(rows: list[tuple[Any, ...]]) -> list[dict[str, Any]]:
    """Events as JSON values."""
    return [dict(zip(_NAMES, row, strict=True)) for row in rows]


def show_events(rows: list[tuple[Any, ...]]) -> None:
    """Events as a table."""
    say_table(("at", "who", "did", "task", "mode", "why"), [(r[1], r[2], r[3], r[4], r[5], r[6]) for r in rows])


def explain(context: typer.Context, task: int, as_json: Json = False) -> None:
    """Why a task is not running now, in plain words: stoker explain 17."""
    from stoker.orchestrator.explain import explain as in_words
    from stoker.orchestrator.explain import look

    session: Session = context.obj
    facts = look(session.database, session.config, task)
    if facts is None:
        raise UsageError(f"there is no task {task}")
    if as_json:
        say_json({"task": task, "state": facts.status, "text": in_words(facts)})
    else:
        say(in_words(facts))
