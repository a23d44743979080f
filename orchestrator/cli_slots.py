"""``stoker slots``: what became of due times, and which come next."""

from itertools import islice
from typing import Annotated, Any, Optional
from zoneinfo import ZoneInfo

import typer

from stoker.orchestrator.session import Session, UsageError, say, say_json, say_table

Json = Annotated[bool, typer.Option("--json", help="JSON, for programs.")]


def add_to(app: typer.Typer) -> None:
    """Add this command to the command line."""
    app.command()(slots)


def slots(
    context: typer.Context,
    schedule: Annotated[Optional[str], typer.Option(help="Only of this schedule.")] = None,  # noqa: UP045
    coming: Annotated[int, typer.Option("--next", help="So many due times to come, of each schedule.")] = 3,
    limit: Annotated[int, typer.Option(help="At most so many of the past.")] = 20,
    as_json: Json = False,
) -> None:
    """Due times, past and next, in the time zone of their schedule: stoker slots --schedule day."""
    from stoker.orchestrator.slots import register, rule_of, upcoming

    session: Session = context.obj
    schedules = session.config.schedules
    if schedule is not None and schedule not in schedules:
        raise UsageError(f"no schedule {schedule!r}; configured: {', '.join(schedules) or 'none'}")
    shown = [one for name, one in schedules.items() if schedule in (None, name)]
    for one in shown:
        register(session.database, one)
    zones = {one.name: one.timezone for one in schedules.values()}
    registered = {name: (rule, now) for name, rule, _, now, _ in session.database.run("list_schedules")}
    rows: list[dict[str, Any]] = []
    for one in shown:
        _, now = registered[one.name]
        due = list(islice(upcoming(rule_of(one), now), max(coming, 0)))
        rows += [{"schedule": one.name, "due_at": at, "state": "next", "reason": None, "fire": None} for at in due]
    names = ("schedule", "due_at", "last_due_at", "state", "reason", "fire", "decided_at")
    past = session.database.run("list_slots", schedule=schedule, limit=max(limit, 0))
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


def _local(instant: Any, zone: ZoneInfo) -> str:
    return str(instant.astimezone(zone).strftime("%Y-%m-%d %H:%M:%S %Z"))
