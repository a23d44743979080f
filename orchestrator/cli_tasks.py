"""``stoker tasks``: what shows tasks, ``ls|show|results``, and ``logs``. What moves them is in cli_moves."""

import json
import sys
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from stoker.orchestrator import cli_moves
from stoker.orchestrator.cli_modes import as_facts, paused, show_events
from stoker.orchestrator.session import Session, UsageError, say, say_json, say_table

if TYPE_CHECKING:
    from stoker.sql.database import Database

tasks = typer.Typer(
    no_args_is_help=True, help="Look at tasks, and move them.", context_settings={"help_option_names": ["-h", "--help"]}
)

Json = Annotated[bool, typer.Option("--json", help="JSON, for programs.")]


def add_to(app: typer.Typer) -> None:
    """Add these commands to the command line."""
    cli_moves.add_to(tasks)
    app.command()(logs)
    app.add_typer(tasks, name="tasks")


@tasks.command("ls")
def ls(
    context: typer.Context,
    mode: Annotated[Optional[str], typer.Option(help="Only this mode.")] = None,  # noqa: UP045
    state: Annotated[
        str | None, typer.Option("--state", "--status", help="Only this state, such as queued, held, failed.")
    ] = None,
    fire: Annotated[Optional[int], typer.Option(help="Only what ended in this fire.")] = None,  # noqa: UP045
    label: Annotated[Optional[str], typer.Option(help="Only results with this label.")] = None,  # noqa: UP045
    kind: Annotated[Optional[str], typer.Option(help="Only this kind of error.")] = None,  # noqa: UP045
    limit: Annotated[int, typer.Option(min=0, help="At most so many.")] = 50,
    as_json: Json = False,
) -> None:
    """Tasks, newest first: stoker tasks ls --state failed --mode resize."""
    from stoker.sql.states import TASK_STATES

    if state is not None and state not in TASK_STATES:
        raise UsageError(f"no state {state!r}; there are: {', '.join(TASK_STATES)}")
    _check_mode(context.obj, mode)
    rows = context.obj.database.run("list_tasks", mode=mode, state=state, fire=fire, label=label, kind=kind, limit=limit)
    names = (
        "id", "mode", "status", "priority", "attempts", "max_attempts", "available_at", "created_at", "finished_at",
        "fire", "seconds", "label", "error_kind", "error", "claimed_by", "held_for", "is_in_line",
    )  # fmt: skip
    if as_json:
        say_json([dict(zip(names, row, strict=True)) for row in rows])
        return
    shown = [(r[0], r[1], _stands(r[2], r[15], r[16]), r[4], r[9], r[11], r[12], r[7]) for r in rows]
    say_table(("id", "mode", "status", "attempts", "fire", "label", "error", "created"), shown)
    for name, words in paused(context.obj).items():
        if mode in (None, name):
            say(f"{name} is {words}")


@tasks.command("show")
def show(
    context: typer.Context,
    task: Annotated[Optional[int], typer.Argument(help="Its id; or give --mode and --key.")] = None,  # noqa: UP045
    mode: Annotated[Optional[str], typer.Option(help="With --key: its mode.")] = None,  # noqa: UP045
    key: Annotated[Optional[str], typer.Option(help="Find it by its key.")] = None,  # noqa: UP045
    as_json: Json = False,
) -> None:
    """One task: where it stands, what was asked, its attempts, and what people did to it.

    stoker tasks show 17

    stoker tasks show --mode resize --key order-4711
    """
    names = (
        "id", "mode", "status", "payload", "priority", "version", "attempts", "max_attempts", "available_at",
        "created_at", "claimed_by", "claimed_at", "finished_at", "fire", "seconds", "label", "result", "error_kind",
        "error", "suspect", "held_for", "question", "is_in_line", "lane_key", "key", "tags", "expires_at",
        "cancel_asked_at", "progress", "progress_text",
    )  # fmt: skip
    database = context.obj.database
    task = _named(database, task, mode, key)
    rows = database.run("find_task", id=task)
    if not rows:
        raise UsageError(f"there is no task {task}")
    events = database.run("list_events", task=task, limit=100)
    attempts = database.run("list_attempts", id=task)
    steps = database.run("list_steps", id=task)
    facts = dict(zip(names, rows[0], strict=True))
    attempt_names = (
        "attempt", "fire", "worker", "verdict", "error_kind", "error", "started_at", "finished_at", "seconds", "is_mean",
        "code_version",
    )  # fmt: skip
    if as_json:
        ended = [dict(zip(attempt_names, row, strict=True)) for row in attempts]
        finished = [dict(zip(("step", "attempt", "finished_at", "result"), row, strict=True)) for row in steps]
        say_json({**facts, "attempts_ended": ended, "steps_finished": finished, "events": as_facts(events)})
        return
    for name, value in facts.items():
        if value is not None and value is not False:
            say(f"{name + ':':15}{json.dumps(value, ensure_ascii=False) if name in ('payload', 'result') else value}")
    if attempts:
        say()
        say_table(
            ("attempt", "fire", "code", "verdict", "kind", "error", "started", "ended", "worker"),
            [(r[0], r[1], r[10], r[3], r[4], r[5], r[6], r[7], r[2]) for r in attempts],
        )
    if steps:
        say()
        results = ["" if row[3] is None else json.dumps(row[3], ensure_ascii=False) for row in steps]
        rows = [(*row[:3], result) for row, result in zip(steps, results, strict=True)]
        say_table(("step finished", "in attempt", "at", "result"), rows)
    if events:
        say()
        show_events(events)


def _check_mode(session: Session, mode: str | None) -> None:
    """Raises UsageError for a mode that is neither configured nor any task's."""
    if mode is None or mode in session.config.modes:
        return
    if not session.database.run("list_tasks", mode=mode, state=None, fire=None, label=None, kind=None, limit=1):
        configured = ", ".join(session.config.modes) or "none"
        raise UsageError(f"no mode {mode!r} is configured, and no task has it; configured: {configured}")


def _named(database: "Database", task: int | None, mode: str | None, key: str | None) -> int:
    """The task's id, as given or by its key."""
    if task is not None and mode is None and key is None:
        return task
    if task is not None or mode is None or key is None:
        raise UsageError("say which task, by its id or by its key: stoker tasks show 17, or --mode NAME --key KEY")
    rows = database.run("find_key", mode=mode, key=key)
    if not rows:
        raise UsageError(f"no task of mode {mode} has the key {key!r}")
    return int(rows[0][0])


def _stands(state: str, held_for: str | None, is_in_line: bool) -> str:
    return f"held ({held_for})" if held_for else "queued (in line)" if is_in_line else state


@tasks.command("results")
def results(
    context: typer.Context,
    mode: Annotated[str, typer.Option(help="The mode.")],
    fire: Annotated[Optional[int], typer.Option(help="Only what ended in this fire.")] = None,  # noqa: UP045
    last: Annotated[bool, typer.Option("--last", help="Only what ended in the last fire that has a note.")] = False,
) -> None:
    """The results of a mode's done tasks as JSON lines, oldest first: stoker tasks results --mode fixity."""
    _check_mode(context.obj, mode)
    if last:
        fire = next((number for number, *_ in context.obj.database.run("find_note", fire=None)), None)
    for task, number, label, payload, result in context.obj.database.run("list_results", mode=mode, fire=fire):
        say_json({"task": task, "fire": number, "label": label, "payload": payload, "result": result})


@tasks.command("run")
def run(
    context: typer.Context,
    task: int,
    inline: Annotated[
        bool, typer.Option("--inline", help="Here and now, in a fire of its own; else a fire will run it.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Run one queued task now, whatever its turn, and show how it ended: stoker tasks run 17 --inline.

    It is a fire of the lane "inline", with its note, its limits and its own daily count; what others run goes on.
    """
    from stoker.orchestrator.fire_command import deliver, run_task

    session, database = context.obj, context.obj.database
    rows = database.run("find_task", id=task)
    if not rows:
        raise UsageError(f"there is no task {task}")
    mode, stands = rows[0][1], rows[0][2]
    if not inline:
        raise UsageError(f"say --inline to run task {task} here and now; without it the next fire runs it in its turn")
    if mode not in session.config.modes:
        raise UsageError(f"mode {mode} of task {task} is not configured here")
    if mode not in session.config.served:
        raise UsageError(f"mode {mode} of task {task} is not run on this host: [worker] modes leaves it out")
    if stands != "queued":
        raise UsageError(f"task {task} is {stands}, not queued; stoker explain {task} says more")
    ended = run_task(session, task, mode)
    if ended.refusal is not None:
        raise UsageError(f"fire {ended.fire} refused: {ended.refusal}")
    if not any(fire == ended.fire for _, fire, *_ in database.run("list_attempts", id=task)):
        from stoker.orchestrator.explain import explain, look

        facts = look(database, session.config, task)
        raise UsageError(f"task {task} was not started: " + (explain(facts) if facts else "it is gone"))
    show(context, task=task, as_json=as_json)
    if not as_json:
        for attempt, output in database.run("list_outputs", id=task)[-1:]:
            say(f"--- printed in attempt {attempt}")
            say("".join(c if c.isprintable() or c in "\n\t" else "\ufffd" for c in output).rstrip("\n"))
    deliver(session, ended)
    if ended.signal_number:
        raise typer.Exit(128 + ended.signal_number)


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
