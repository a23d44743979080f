"""``stoker enqueue``: one task, or JSON lines of them, with everything that a producer may ask for."""

import sys
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Optional

import typer

from stoker.orchestrator.session import Session, UsageError, say, say_json

if TYPE_CHECKING:
    from stoker.sql.enqueue import Door, Enqueued, NewTask

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
    expires_in: Annotated[Optional[str], typer.Option(help="Never started when this much time has passed.")] = None,  # noqa: UP045
    expires_at: Annotated[Optional[str], typer.Option(help="Never started after this time.")] = None,  # noqa: UP045
    max_attempts: Annotated[Optional[int], typer.Option(help="Instead of the mode's own.")] = None,  # noqa: UP045
    version: Annotated[Optional[int], typer.Option(help="Of the payload; default: the mode's.")] = None,  # noqa: UP045
    key: Annotated[str | None, typer.Option(help="Of this mode and key there is one task while it is unfinished ...")] = None,
    key_for: Annotated[Optional[str], typer.Option(help='... and for so long after, such as "1d".')] = None,  # noqa: UP045
    retry_terminal: Annotated[bool, typer.Option(help="Open the key's task again if it failed or was cancelled.")] = False,
    lane_key: Annotated[str | None, typer.Option(help="Tasks of this mode and lane key run one at a time, in order.")] = None,
    tag: Annotated[Optional[list[str]], typer.Option(help="A word to find it by; may be repeated.")] = None,  # noqa: UP045
    needs_approval: Annotated[bool, typer.Option(help="Not started before somebody approves of it.")] = False,
    allow_unknown: Annotated[bool, typer.Option(help="Take modes that this configuration does not have.")] = False,
    as_json: Json = False,
) -> None:
    """Put tasks in the queue, all of them or none.

    stoker enqueue resize '{"path": "a.png"}'

    stoker enqueue resize --jsonl paths.jsonl         (a payload a line)

    produce | stoker enqueue --jsonl -                ({"mode": "resize", "payload": {...}, "key": "..."} a line)
    """
    session: Session = context.obj
    asked = _Asked(
        mode, payload, jsonl, priority, delay, at, expires_in, expires_at, max_attempts, version, key, key_for,
        retry_terminal, lane_key, tuple(tag or ()), needs_approval,
    )  # fmt: skip
    asked.check()
    ids = _put(session, asked, allow_unknown=allow_unknown)
    there = len(ids.duplicates)
    if as_json:
        say_json({"enqueued": len(ids) - there, "ids": ids, "duplicates": list(ids.duplicates)})
    else:
        words = f"; {there:,} had a task already" if there else ""
        say(f"enqueued {len(ids) - there:,} task(s)" + (f": {ids[0]}" if len(ids) == 1 and not there else "") + words)
        if len(ids) == 1 and there:
            say(f"task {ids[0]} has this key")


@dataclass(frozen=True, slots=True)
class _Asked:
    """What the command line says of the task, or of every line."""

    mode: str | None
    payload: str | None
    jsonl: str | None
    priority: int = 0
    delay: str | None = None
    at: str | None = None
    expires_in: str | None = None
    expires_at: str | None = None
    max_attempts: int | None = None
    version: int | None = None
    key: str | None = None
    key_for: str | None = None
    retry_terminal: bool = False
    lane_key: str | None = None
    tags: tuple[str, ...] = field(default=())
    needs_approval: bool = False

    def check(self) -> None:
        """Raises UsageError when the options do not belong together."""
        if self.jsonl is None and (self.mode is None or self.payload is None):
            raise UsageError('give a mode and a payload: stoker enqueue resize \'{"path": "a.png"}\'; or --jsonl FILE')
        if self.jsonl is not None and self.payload is not None:
            raise UsageError("give a payload or --jsonl, not both")
        if self.jsonl is not None and self.mode is None and self != _Asked(None, None, self.jsonl):
            raise UsageError(
                "without a mode for all, each line says its own priority, delay, available_at, expires_at, expires_in,"
                " max_attempts, version, key, key_for, retry_terminal, lane_key, tags and needs_approval"
            )
        if self.jsonl is not None and (self.key is not None or self.key_for or self.retry_terminal):
            raise UsageError('a key is one task\'s: write it in its line, {"mode": ..., "payload": ..., "key": ...}')
        if self.key is None and self.key_for:
            raise UsageError("--key-for needs --key: it says how long the key is kept")

    def of_every(self, task: "NewTask", now: datetime) -> "NewTask":
        """``task`` with what was said for all; raises UsageError."""
        return replace(
            task,
            priority=self.priority,
            max_attempts=self.max_attempts,
            version=task.version if self.version is None else self.version,
            available_at=_when("at", self.at, "delay", self.delay, now),
            expires_at=_when("expires-at", self.expires_at, "expires-in", self.expires_in, now),
            key=self.key,
            key_seconds=_seconds(self.key_for),
            retry_terminal=self.retry_terminal,
            lane_key=self.lane_key,
            tags=self.tags,
            needs_approval=self.needs_approval,
        )


def _put(session: Session, asked: _Asked, *, allow_unknown: bool) -> "Enqueued":
    from stoker.orchestrator.door import door_of
    from stoker.orchestrator.tell import tell_modes

    config = session.config
    if asked.mode is not None and not allow_unknown:
        _check_mode(asked.mode, config.modes)
    door = door_of(config, only=asked.mode, allow_unknown=allow_unknown)
    _when("at", asked.at, "delay", asked.delay, datetime.now(UTC))  # what is wrong is said before the database is asked
    versions = {name: mode.version for name, mode in config.modes.items()}
    one = None if asked.jsonl is not None else _one(asked, versions)
    file = None if asked.jsonl is None else _open_lines(asked.jsonl)
    ((_, now),) = session.database.run("server_facts")
    tell_modes(session.database, config)
    if one is not None:
        return _enqueue_one(session, asked.of_every(one, now), door)
    return _enqueue_lines(session, asked, file or sys.stdin.buffer, door, now, versions)


def _one(asked: _Asked, versions: dict[str, int]) -> "NewTask":
    from stoker.sql.enqueue import NewTask
    from stoker.sql.payload import PayloadError, decode

    try:
        value = decode(asked.payload or "")
    except PayloadError as error:
        raise UsageError(f'{error}. Put single quotes around the payload: \'{{"path": "a.png"}}\'') from None
    return NewTask(asked.mode or "", value, version=versions.get(asked.mode or "", 1))


def _enqueue_one(session: Session, task: "NewTask", door: "Door") -> "Enqueued":
    from stoker.sql.enqueue import EnqueueError, enqueue_many

    try:
        return session.database.in_transaction(lambda tx: enqueue_many(tx.connection, [task], door))
    except EnqueueError as error:
        raise EnqueueError(error.reason) from None


def _enqueue_lines(
    session: Session, asked: _Asked, file: IO[bytes], door: "Door", now: datetime, versions: dict[str, int]
) -> "Enqueued":
    from stoker.orchestrator.bulk_bar import bar, lines_told
    from stoker.sql.enqueue import enqueue_many, read_lines

    read: Iterable[NewTask] = read_lines(lines_told(file), mode=asked.mode, now=now, versions=versions)
    if asked.mode is not None:
        every = asked.of_every(_nothing(asked.mode), now)
        read = (replace(every, payload=task.payload, line=task.line, version=asked.version or task.version) for task in read)
    new = list(read)
    with bar("enqueueing", len(new)) as tell:
        return session.database.in_transaction(lambda tx: enqueue_many(tx.connection, new, door, tell))


def _nothing(mode: str) -> "NewTask":
    from stoker.sql.enqueue import NewTask

    return NewTask(mode)


def _check_mode(mode: str, modes: Iterable[str]) -> None:
    from stoker.sql.enqueue import Door, NewTask
    from stoker.sql.new_task import check_columns

    check_columns(NewTask(mode), Door(modes=frozenset(modes)))


def _when(time_name: str, time: str | None, within_name: str, within: str | None, now: datetime) -> datetime | None:
    """The time that one of two options says; None when neither does."""
    from stoker.sql.enqueue import parse_time

    if time and within:
        raise UsageError(f"give --{time_name} or --{within_name}, not both")
    try:
        return now + timedelta(seconds=_seconds(within)) if within else parse_time(time, f"--{time_name}") if time else None
    except (ValueError, OverflowError) as error:
        raise UsageError(str(error)) from None


def _seconds(text: str | None) -> float:
    from stoker.sql.units import parse_duration

    try:
        return parse_duration(text) if text else 0.0
    except ValueError as error:
        raise UsageError(str(error)) from None


def _open_lines(name: str) -> IO[bytes]:
    if name == "-":
        return sys.stdin.buffer
    try:
        return Path(name).open("rb")
    except OSError as error:
        raise UsageError(f"{name}: {error.strerror}") from None
