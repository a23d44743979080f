"""``stoker slots``: what became of due times, and which come next; ``slots pause``, ``resume`` and ``forget``."""

from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, Optional
from zoneinfo import ZoneInfo

import typer

from stoker.orchestrator.cli_moves import actor
from stoker.orchestrator.session import Session, UsageError, say, say_json, say_table

if TYPE_CHECKING:
    from stoker.orchestrator.settings import ScheduleSettings

slots = typer.Typer(invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})

By = Annotated[Optional[str], typer.Option(help="Who asks; default: the user of this system.")]  # noqa: UP045
Json = Annotated[bool, typer.Option("--json", help="JSON, for programs.")]


def add_to(app: typer.Typer) -> None:
    """Add this command to the command line."""
    app.add_typer(slots, name="slots")


@slots.callback()
def show(
    context: typer.Context,
    schedule: Annotated[Optional[str], typer.Option(help="Only of this schedule.")] = None,  # noqa: UP045
    coming: Annotated[int, typer.Option("--next", help="So many due times to come, of each schedule.")] = 3,
    limit: Annotated[int, typer.Option(min=0, help="At most so many of the past.")] = 20,
    as_json: Json = False,
) -> None:
    """Due times, past and next, in the time zone of their schedule: stoker slots --schedule day."""
    from stoker.orchestrator.slots import paused, register, rule_of, upcoming

    if context.invoked_subcommand is not None:
        return
    session: Session = context.obj
    schedules = session.config.schedules
    if schedule is not None:
        _known(session, schedule)
    shown = [one for name, one in schedules.items() if schedule in (None, name)]
    for one in shown:
        register(session.database, one)
    zones = {one.name: one.timezone for one in schedules.values()}
    registered = {name: (rule, now) for name, rule, _, now, _ in session.database.run("list_schedules")}
    rows: list[dict[str, Any]] = []
    held = paused(session.database)
    for one in shown:
        _, now = registered[one.name]
        why = held.get(one.name)
        due = list(islice(upcoming(rule_of(one), now), max(coming, 0)))
        rows += [{"schedule": one.name, "due_at": at, "state": "next", "reason": why, "fire": None} for at in due]
    names = ("schedule", "due_at", "last_due_at", "state", "reason", "fire", "decided_at")
    past = session.database.run("list_slots", schedule=schedule, limit=limit)
    rows += [dict(zip(names, row, strict=True)) for row in past]
    rows.sort(key=lambda row: row["due_at"], reverse=True)
    if as_json:
        say_json(rows)
        return
    if not shown and not rows:
        say("no [[schedules]] is configured")
        return
    table = []
    for row in rows:
        zone = ZoneInfo(zones.get(row["schedule"], "UTC"))
        until = row.get("last_due_at", row["due_at"])
        span = _local(row["due_at"], zone) + (f" to {_local(until, zone)}" if until != row["due_at"] else "")
        late = f"{(row['decided_at'] - row['due_at']).total_seconds():.0f} s" if row["state"] == "ran" else None
        table.append((row["schedule"], span, row["state"], row["fire"], late, row["reason"]))
    say_table(("schedule", "due", "state", "fire", "late", "reason"), table)


@slots.command("pause")
def pause(
    context: typer.Context,
    name: str,
    reason: Annotated[str, typer.Option(help="Why; it is shown wherever the schedule is.")],
    by: By = None,
) -> None:
    """Stop a schedule: what of it is due is skipped until it is resumed. A fire that runs is finished.

    stoker slots pause day --reason "the supplier is closed"
    """
    from stoker.orchestrator.slots import paused, register

    session: Session = context.obj
    register(session.database, _known(session, name))
    if not reason.strip():
        raise UsageError("say why, for those who find it paused: --reason TEXT")
    if session.database.run("pause_schedule", schedule=name, actor=actor(by), reason=reason):
        say(f"{name} is paused; what of it is due is skipped. To go on: stoker slots resume {name}")
    else:
        say(f"{name} is paused already: {paused(session.database).get(name, '')}")


@slots.command("resume")
def resume(
    context: typer.Context,
    name: str,
    reason: Annotated[Optional[str], typer.Option(help="Why, for the events.")] = None,  # noqa: UP045
    by: By = None,
) -> None:
    """Let a paused schedule go on, from its next due time: stoker slots resume day."""
    from stoker.orchestrator.slots import paused

    session: Session = context.obj
    if session.database.run("resume_schedule", schedule=name, actor=actor(by), reason=reason):
        say(f"{name} is not paused any more")
    else:
        say(f"{name} is not paused; paused are: {', '.join(paused(session.database)) or 'none'}")


@slots.command("forget")
def forget(
    context: typer.Context,
    name: str,
    reason: Annotated[Optional[str], typer.Option(help="Why, for the events.")] = None,  # noqa: UP045
    by: By = None,
) -> None:
    """Let the watchdog wait no more for a schedule that was taken out of config.toml: stoker slots forget day."""
    session: Session = context.obj
    if name in session.config.schedules:
        raise UsageError(f"{name} is configured: take it out of {session.config.path} first, or stoker slots pause {name}")
    if session.database.run("forget_schedule", schedule=name, actor=actor(by), reason=reason):
        say(f"{name} is forgotten; what became of its due times stays")
    else:
        registered = [row[0] for row in session.database.run("list_schedules") if row[0] not in session.config.schedules]
        raise UsageError(f"no schedule {name!r} is known; known and not configured: {', '.join(registered) or 'none'}")


def _known(session: Session, name: str) -> "ScheduleSettings":
    schedules = session.config.schedules
    if name not in schedules:
        raise UsageError(f"no schedule {name!r}; configured: {', '.join(schedules) or 'none'}")
    return schedules[name]


def _local(instant: Any, zone: ZoneInfo) -> str:
    return str(instant.astimezone(zone).strftime("%Y-%m-%d %H:%M:%S %Z"))
