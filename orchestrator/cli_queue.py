"""``stoker enqueue``."""

import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, Optional

import typer

from stoker.orchestrator.session import Session, UsageError, say, say_json

Json = Annotated[bool, typer.Option("--json", help="JSON, for programs.")]


def add_to(app: typer.Typer) -> None:
    """Add this command to the command line."""
    app.command()(enqueue)


def enqueue(
    context: typer.Context,
    mode: Annotated[Optional[str], typer.Argument(help="The mode; with --jsonl, the mode of every line.")] = None,  # noqa: UP045
    payload: Annotated[Optional[str], typer.Argument(help="The payload as JSON.")] = None,  # noqa: UP045
    jsonl: Annotated[Optional[str], typer.Option(help="A file of JSON lines, or - for standard input.")] = None,  # noqa: UP045
    priority: Annotated[int, typer.Option(help="Lower is more urgent; negative is allowed.")] = 0,
    delay: Annotated[Optional[str], typer.Option(help='Not before this much time has passed, such as "15m".')] = None,  # noqa: UP045
    at: Annotated[Optional[str], typer.Option(help="Not before this time, ISO 8601 with its offset.")] = None,  # noqa: UP045
    max_attempts: Annotated[Optional[int], typer.Option(help="Instead of the mode's own.")] = None,  # noqa: UP045
    allow_unknown: Annotated[bool, typer.Option(help="Take modes that this configuration does not have.")] = False,
    as_json: Json = False,
) -> None:
    """Put tasks in the queue, all of them or none.

    stoker enqueue resize '{"path": "a.png"}'

    stoker enqueue resize --jsonl paths.jsonl         (a payload a line)

    produce | stoker enqueue --jsonl -                ({"mode": "resize", "payload": {...}} a line)
    """
    from stoker.sql.enqueue import Door, NewTask, enqueue_many, read_lines
    from stoker.sql.enqueue import enqueue as enqueue_one
    from stoker.sql.payload import PayloadError, decode

    session: Session = context.obj
    config = session.config
    door = Door(
        config.database.schema_name,
        config.queue.payload_limit_bytes,
        None if allow_unknown else frozenset(config.modes),
        config.queue.span_length,
    )
    when = _when(at, delay)
    version = config.modes[mode].version if mode in config.modes else 1
    if jsonl is not None:
        if payload is not None:
            raise UsageError("give a payload or --jsonl, not both")
        if mode is None and (priority, when, max_attempts) != (0, None, None):
            raise UsageError("without a mode for all, each line says its own priority, delay, available_at and max_attempts")
        new = list(read_lines(_open_lines(jsonl), mode=mode))
        if mode is not None:
            new = [
                replace(task, priority=priority, version=version, max_attempts=max_attempts, available_at=when) for task in new
            ]
    else:
        if mode is None or payload is None:
            raise UsageError('give a mode and a payload: stoker enqueue resize \'{"path": "a.png"}\'; or --jsonl FILE')
        try:
            value = decode(payload)
        except PayloadError as error:
            raise UsageError(f'{error}. Put single quotes around the payload: \'{{"path": "a.png"}}\'') from None
        new = [NewTask(mode, value, priority, version, max_attempts, when)]
    with session.database.raw() as connection:
        ids = enqueue_many(connection, new, door) if jsonl is not None else [enqueue_one(connection, new[0], door)]
    if as_json:
        say_json({"enqueued": len(ids), "ids": ids})
    else:
        say(f"enqueued {len(ids):,} task(s)" + (f": {ids[0]}" if len(ids) == 1 else ""))


def _when(at: str | None, delay: str | None) -> datetime | None:
    """Not before which time; None: now."""
    from stoker.sql.enqueue import parse_time
    from stoker.sql.units import parse_duration

    if at and delay:
        raise UsageError("give --at or --delay, not both")
    try:
        return datetime.now(UTC) + timedelta(seconds=parse_duration(delay)) if delay else parse_time(at) if at else None
    except ValueError as error:
        raise UsageError(str(error)) from None


def _open_lines(name: str) -> Any:
    if name == "-":
        return sys.stdin.buffer
    try:
        return Path(name).open("rb")
    except OSError as error:
        raise UsageError(f"{name}: {error.strerror}") from None
