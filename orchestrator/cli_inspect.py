"""``stoker init``, ``status``, ``fires ls|show``, ``config`` and ``doctor``."""

from pathlib import Path
from typing import Annotated, Optional

import typer

from stoker.orchestrator.cli_gate import why_closed
from stoker.orchestrator.cli_modes import paused
from stoker.orchestrator.session import Session, UsageError, say, say_json, say_table
from stoker.sql.units import format_duration

fires = typer.Typer(no_args_is_help=True, help="Look at fires.", context_settings={"help_option_names": ["-h", "--help"]})

Json = Annotated[bool, typer.Option("--json", help="JSON, for programs.")]

STARTER = """# stoker: every key, with its default and unit, is in the reference config.toml of the project.

[limits]
fires_per_day = 100             # a fire that finds nothing to do counts too
max_pool = 4                    # workers launched per fire
task_cap = 25                   # tasks one worker handles before it exits

[modes.hello]
handler = "jobs:hello"          # found beside this file
timeout = "1m"
"""

STARTER_JOBS = '''"""Handlers: each takes a task and returns a JSON value, or raises to fail the attempt."""

from stoker.worker.task import Task


def hello(task: Task[dict[str, str]]) -> dict[str, str]:
    return {"greeting": f"Hello, {task.payload['name']}!"}
'''


def add_to(app: typer.Typer) -> None:
    """Add these commands to the command line."""
    for command in (init, status, config, doctor):
        app.command()(command)
    app.add_typer(fires, name="fires")


def init(folder: Annotated[Path, typer.Argument(help="Where to put config.toml and jobs.py.")] = Path()) -> None:
    """Write a small config.toml and jobs.py to start from; nothing that is there is overwritten."""
    texts = {folder / "config.toml": STARTER, folder / "jobs.py": STARTER_JOBS}
    there = [str(path) for path in texts if path.exists()]
    if there:
        raise UsageError(f"{', '.join(there)} is there already; nothing was written")
    folder.mkdir(parents=True, exist_ok=True)
    for path, text in texts.items():
        path.write_text(text, "utf-8")
        say(f"wrote {path}")
    say("The database starts when it is needed, in .stoker beside config.toml; it stays up until: stoker db stop")
    if folder != Path():
        say(f"next: cd {folder}")
    say('next: stoker enqueue hello \'{"name": "world"}\', then stoker fire')


def status(context: typer.Context, as_json: Json = False) -> None:
    """The queue by mode, the active fires, and the last note: stoker status."""
    from stoker.hygiene.outbox import undelivered, undelivered_words, unknown_channel
    from stoker.orchestrator.gate import gate_words
    from stoker.orchestrator.readiness import Beat, troubles, unusable, wanted
    from stoker.orchestrator.slots import paused as paused_schedules
    from stoker.orchestrator.snapshot import unserved, why_unserved

    session: Session = context.obj
    database = session.database
    modes: dict[str, dict[str, int]] = {}
    for mode, ready, later, due, _, _ in database.run("queue_counts"):
        modes.setdefault(mode, {}).update(ready=ready + due, not_due=later - due)
    for mode, count in database.run("claim_counts"):
        modes.setdefault(mode, {})["in_progress"] = count
    for mode, count, _ in database.run("unknown_counts"):
        modes.setdefault(mode, {})["unknown"] = count
    for mode, _, count, _ in database.run("held_counts"):
        of = modes.setdefault(mode, {})
        of["held"] = of.get("held", 0) + count
    for mode, count in database.run("line_counts"):
        modes.setdefault(mode, {})["behind"] = count
    stopped = paused(session)
    for mode in stopped:
        modes.setdefault(mode, {})
    active = [fire for fire, *_ in database.run("list_active_fires", lane=None)]
    note = database.run("find_note", fire=None)
    gate, watchdog = why_closed(session), database.run("watchdog_age")
    held, (reminder, is_forgotten) = paused_schedules(database), gate_words(database, session.config)
    untaken = database.run("failing_pages")
    names = ("ready", "not_due", "behind", "in_progress", "held", "unknown")
    queue = [
        {"mode": mode, **{name: counts.get(name, 0) for name in names}, "paused": stopped.get(mode)}
        for mode, counts in sorted(modes.items())
    ]
    missed, messages, broken = unserved(database, session.config), undelivered(database), unusable(database, session.config)
    unwell = troubles(database.rows(Beat, "list_heartbeats"), wanted(session.config))
    if as_json:
        last = {"fire": note[0][0], "verdict": note[0][1], "at": note[0][3]} if note else None
        watched = watchdog[0][0] if watchdog else None
        known = {name: mode.version for name, mode in session.config.modes.items()}
        waits = [{"mode": mode, "version": version, "tasks": n, "known": known.get(mode)} for mode, version, n in missed]
        gates = {"unserved": waits, "gate": gate, "watchdog_age": watched, "undelivered": messages, "paused_schedules": held}
        untold = [dict(zip(("channel", "pages", "attempts", "failure"), row, strict=True)) for row in untaken]
        gates |= {"unusable": broken, "gate_reminder": reminder if is_forgotten else None, "troubles": unwell}
        say_json({"queue": queue, "active_fires": active, "last_note": last, **gates, "untold_pages": untold})
        return
    if gate:
        say(reminder if is_forgotten and reminder else f"the gate is closed: {gate}")
    for name, words in held.items():
        say(f"schedule {name} is {words}")
    rows = [
        (*list(one.values())[:-1], one["paused"] or ("" if one["mode"] in session.config.modes else "not configured here"))
        for one in queue
    ]
    say_table(("mode", "ready", "not due", "in line", "in progress", "held", "unknown", ""), rows)
    for words in broken:
        say(words)
    for one in missed:
        say(why_unserved(*one, session.config))
    for fire in active:
        ((done, failed, retried, living, workers),) = database.run("live_progress", fire=fire)
        say(f"fire {fire} is active: {done} done, {failed} failed, {retried} retried, {living} of {workers} workers at work")
    say(f"last note: fire {note[0][0]}, {note[0][1]}" if note else "no note yet")
    for words in unwell:
        say(words)
    for kept in messages:
        is_known = kept["channel"] in session.config.notify or not kept["waiting"]
        say(f"{undelivered_words(kept)}. {'See: stoker outbox' if is_known else unknown_channel(kept['channel'])}")
    for channel, pages, attempts, failure in untaken:
        say(f"{pages} page(s) of the watchdog did not go out by {channel}, tried {attempts} time(s): {failure}")
    if watchdog:
        say(
            f"the watchdog looked {format_duration(max(round(watchdog[0][0]), 0))} ago"
            + ("" if watchdog[0][0] <= watchdog[0][1] else ", which is too long: does stoker-watchdog run?")
        )


@fires.command("ls")
def fires_ls(
    context: typer.Context,
    lane: Annotated[Optional[str], typer.Option(help="Only this lane.")] = None,  # noqa: UP045
    limit: Annotated[int, typer.Option(min=0, help="At most so many.")] = 20,
    as_json: Json = False,
) -> None:
    """Fires, newest first, refused ones too: stoker fires ls --lane main."""
    rows = context.obj.database.run("list_fires", lane=lane, limit=limit)
    names = ("fire", "lane", "state", "refusal", "reason", "opened_at", "closed_at", "verdict")
    if as_json:
        say_json([dict(zip(names, row, strict=True)) for row in rows])
        return
    say_table(("fire", "lane", "state", "opened", "verdict"), [(r[0], r[1], r[2], r[5], r[7] or r[3]) for r in rows])


@fires.command("show")
def fires_show(context: typer.Context, number: int, as_json: Json = False) -> None:
    """One fire: its interlocks, its plan, its workers: stoker fires show 12."""
    database = context.obj.database
    rows = database.run("find_fire", fire=number)
    if not rows:
        raise UsageError(f"there is no fire {number}")
    names = (
        "fire", "lane", "state", "refusal", "reason", "opened_at", "deadline_at", "closing_at", "closed_at",
        "code_version", "interlocks", "plan", "sweep", "verdict",
    )  # fmt: skip
    facts = dict(zip(names, rows[0], strict=True))
    workers = database.run("fire_workers", fire=number)
    worker_names = (
        "worker", "mode", "ordinal", "started_at", "first_task_at", "exited_at", "exit_reason", "exit_status", "done",
        "failed", "retried", "respawns", "peak_memory_bytes", "cpu_seconds", "owner", "db_retries",
    )  # fmt: skip
    if as_json:
        say_json({**facts, "workers": [dict(zip(worker_names, row, strict=True)) for row in workers]})
        return
    for name, value in facts.items():
        if value is not None and name not in ("plan", "sweep", "interlocks"):
            say(f"{name + ':':14}{value}")
    limits = ", ".join(f"{name} {'none' if value is None else value}" for name, value in facts["interlocks"].items())
    say(f"{'interlocks:':14}{limits}")
    for share in (facts["plan"] or {}).get("shares", []):
        planned = f"{share['workers']} of {share['wanted']} workers for {share['backlog']} tasks, bound by {share['ceiling']}"
        say(f"{'planned:':14}{share['mode']}: {planned}")
    say()
    say_table(
        ("worker", "mode", "done", "failed", "retried", "left because", "status"),
        [(row[0], row[1], row[8], row[9], row[10], row[6], row[7]) for row in workers],
    )


def config(context: typer.Context, as_json: Json = False) -> None:
    """The configuration in effect, secrets masked, with where each value comes from: stoker config --json."""
    import json

    from stoker.orchestrator.config import effective

    shown = effective(context.obj.config)
    if as_json:
        say_json(shown)
    else:
        say(json.dumps(shown, indent=2, default=str, ensure_ascii=False))


def doctor(
    context: typer.Context,
    checklist: Annotated[bool, typer.Option("--checklist", help="Prove the seven points instead.")] = False,
    as_json: Json = False,
) -> None:
    """What is wrong here, and what to do about it; exit code 2 when something is.

    stoker doctor --checklist        the seven points of a batch runner one can leave alone, each proven or "not yet"
    """
    from stoker.orchestrator import checklist as points
    from stoker.orchestrator import doctor as examine

    session: Session = context.obj
    found = points.prove(session) if checklist else examine.examine(session)
    if as_json:
        say_json([{"check": one.name, "ok": one.ok, "text": one.text} for one in found])
    else:
        marks = {True: "ok", False: "not yet" if checklist else "FAILED", None: "skipped"}
        for one in found:
            say(f"{marks[one.ok]:8} {one.name}: {one.text}")
    if not checklist and any(one.ok is False for one in found):
        raise typer.Exit(2)
