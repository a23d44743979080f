"""What shows tasks: ``tasks ls|show|results`` and ``logs``."""

import json
import sys
from typing import Annotated, Optional

import typer

from stoker.orchestrator.session import UsageError, say, say_json, say_table

tasks = typer.Typer(no_args_is_help=True, help="Look at tasks.", context_settings={"help_option_names": ["-h", "--help"]})

Json = Annotated[bool, typer.Option("--json", help="JSON, for programs.")]


def add_to(app: typer.Typer) -> None:
    """Add these commands to the command line."""
    app.command()(logs)
    app.add_typer(tasks, name="tasks")


@tasks.command("ls")
def ls(
    context: typer.Context,
    mode: Annotated[Optional[str], typer.Option(help="Only this mode.")] = None,  # noqa: UP045
    state: Annotated[str | None, typer.Option(help="Only this state: queued, in_progress, done, failed, unknown.")] = None,
    fire: Annotated[Optional[int], typer.Option(help="Only what ended in this fire.")] = None,  # noqa: UP045
    label: Annotated[Optional[str], typer.Option(help="Only results with this label.")] = None,  # noqa: UP045
    kind: Annotated[Optional[str], typer.Option(help="Only this kind of error.")] = None,  # noqa: UP045
    limit: Annotated[int, typer.Option(help="At most so many.")] = 50,
    as_json: Json = False,
) -> None:
    """Tasks, newest first: stoker tasks ls --state failed --mode resize."""
    from stoker.sql.states import TASK_STATES

    if state is not None and state not in TASK_STATES:
        raise UsageError(f"no state {state!r}; there are: {', '.join(TASK_STATES)}")
    rows = context.obj.database.run(
        "list_tasks", mode=mode, state=state, fire=fire, label=label, kind=kind, limit=max(limit, 0)
    )
    names = (
        "id", "mode", "status", "priority", "attempts", "max_attempts", "available_at", "created_at", "finished_at",
        "fire", "seconds", "label", "error_kind", "error", "claimed_by",
    )  # fmt: skip
    if as_json:
        say_json([dict(zip(names, row, strict=True)) for row in rows])
        return
    if not rows and mode is not None and mode not in context.obj.config.modes:
        sys.stderr.write(f"no mode {mode!r} is configured, and no task has it\n")
    shown = [(r[0], r[1], r[2], r[4], r[9], r[11], r[12], r[7]) for r in rows]
    say_table(("id", "mode", "status", "attempts", "fire", "label", "error", "created"), shown)


@tasks.command("show")
def show(context: typer.Context, task: int, as_json: Json = False) -> None:
    """One task: where it stands, what was asked, and its attempts: stoker tasks show 17."""
    names = (
        "id", "mode", "status", "payload", "priority", "version", "attempts", "max_attempts", "available_at",
        "created_at", "claimed_by", "claimed_at", "finished_at", "fire", "seconds", "label", "result", "error_kind",
        "error", "suspect",
    )  # fmt: skip
    database = context.obj.database
    rows = database.run("find_task", id=task)
    if not rows:
        raise UsageError(f"there is no task {task}")
    attempts = database.run("list_attempts", id=task)
    facts = dict(zip(names, rows[0], strict=True))
    attempt_names = ("attempt", "fire", "worker", "verdict", "error_kind", "error", "finished_at", "seconds")
    if as_json:
        say_json({**facts, "attempts_ended": [dict(zip(attempt_names, row, strict=True)) for row in attempts]})
        return
    for name, value in facts.items():
        if value is not None:
            say(f"{name + ':':14}{json.dumps(value, ensure_ascii=False) if name in ('payload', 'result') else value}")
    if attempts:
        say()
        say_table(
            ("attempt", "fire", "verdict", "kind", "error", "at"),
            [(r[0], r[1], r[3], r[4], r[5], r[6]) for r in attempts],
        )


@tasks.command("results")
def results(
    context: typer.Context,
    mode: Annotated[str, typer.Option(help="The mode.")],
    fire: Annotated[Optional[int], typer.Option(help="Only what ended in this fire.")] = None,  # noqa: UP045
    last: Annotated[bool, typer.Option("--last", help="Only what ended in the last fire that has a note.")] = False,
) -> None:
    """The results of a mode's done tasks as JSON lines, oldest first: stoker tasks results --mode fixity."""
    if last:
        fire = next((number for number, *_ in context.obj.database.run("find_note", fire=None)), None)
    for task, number, label, payload, result in context.obj.database.run("list_results", mode=mode, fire=fire):
        say_json({"task": task, "fire": number, "label": label, "payload": payload, "result": result})


def logs(context: typer.Context, task: int, as_json: Json = False) -> None:
    """What a task printed, attempt by attempt: stoker logs 17."""
    database = context.obj.database
    if not database.run("find_task", id=task):
        raise UsageError(f"there is no task {task}")
    rows = database.run("list_outputs", id=task)
    if as_json:
        say_json([{"attempt": attempt, "output": output} for attempt, output in rows])
        return
    for attempt, output in rows:
        say(f"--- attempt {attempt}")
        say("".join(c if c.isprintable() or c in "\n\t" else "\ufffd" for c in output).rstrip("\n"))
    if not rows:
        sys.stderr.write(f"task {task} printed nothing\n")
