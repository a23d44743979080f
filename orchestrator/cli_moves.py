"""``stoker tasks retry|cancel|release|approve|hold|resume|erase``: what a person does to tasks, by id or by filter."""

import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Optional

import typer

from stoker.orchestrator import moves
from stoker.orchestrator.moves import Filters, Moved, Standing, Verb
from stoker.orchestrator.session import Session, UsageError, say, say_json

_SHOWN = 20
_LONGEST_REASON = 4000
_HINTS = {
    "too early": "their old runner may still be alive (stoker explain ID says until when); --force releases them anyway",
    "held": "approve is for what waits for approval, resume for everything else that is held",
    "replaced": "their key belongs to a newer task that is not finished: cancel that one first, or leave it",
    "in_progress": "a worker has them; only cancel reaches them there",
}


@dataclass(frozen=True, slots=True)
class Asked:
    """What every moving command is told: which tasks, who asks, why, and whether only to look."""

    ids: tuple[int, ...]
    filters: Filters
    reason: str | None
    by: str
    dry_run: bool
    as_json: bool


def add_to(tasks: typer.Typer) -> None:
    """Add these commands to ``stoker tasks``."""
    for command in (retry, cancel, release, approve, hold, resume):
        tasks.command()(_moving(command))
    tasks.command()(erase)


def retry(session: Session, asked: Asked) -> None:
    """Queue failed tasks again, with all their attempts; cancelled ones by id, or with --state cancelled.

    stoker tasks retry 17 18

    stoker tasks retry --mode resize --kind TimeoutError --dry-run
    """
    _do(session, moves.RETRY, asked)


def cancel(session: Session, asked: Asked) -> None:
    """Call tasks off. What a worker has is "requested": it is not tried again, but may still end done or failed.

    stoker tasks cancel 17

    stoker tasks cancel --mode resize --older-than 7d --reason "stale"
    """
    _do(session, moves.CANCEL, asked)


def release(
    session: Session,
    asked: Asked,
    verdict: Annotated[str, typer.Option("--as", help="What you found: done, failed, or queued (it did not happen).")],
    force: Annotated[bool, typer.Option("--force", help="Also while the old runner may still be alive.")] = False,
) -> None:
    """Say what became of side effects whose outcome is unknown.

    stoker tasks release 17 --as done --reason "the invoice is in the archive"
    """
    if verdict not in ("done", "failed", "queued"):
        raise UsageError(f"--as {verdict!r}: a task is released as done, failed or queued")
    _do(session, moves.RELEASE, asked, become=verdict, verdict=verdict, forced=force)


def approve(
    session: Session,
    asked: Asked,
    refuse: Annotated[bool, typer.Option("--refuse", help="Fail them instead, with the reason.")] = False,
) -> None:
    """Let tasks start that wait for approval, or refuse them.

    stoker tasks approve 17

    stoker tasks approve 17 --refuse --reason "not this quarter"
    """
    _do(session, moves.APPROVE, asked, become="failed" if refuse else "queued", refused=refuse)


def hold(session: Session, asked: Asked) -> None:
    """Keep queued tasks from starting until somebody resumes them: stoker tasks hold --mode resize --tag big."""
    _do(session, moves.HOLD, asked)


def resume(
    session: Session,
    asked: Asked,
    answer: Annotated[Optional[str], typer.Option(help="The answer: the handler finds it as task.answer.")] = None,  # noqa: UP045
) -> None:
    """Queue held tasks again; what waits for approval is approved instead: stoker tasks resume 17 --answer "the blue one"."""
    _do(session, moves.RESUME, asked, answer=answer)


def erase(
    context: typer.Context,
    task: int,
    reason: Annotated[Optional[str], typer.Option(help="Why, for the events.")] = None,  # noqa: UP045
    by: Annotated[Optional[str], typer.Option(help="Who asks; default: the user of this system.")] = None,  # noqa: UP045
    force: Annotated[bool, typer.Option("--force", help="Cancel it first if it is not finished.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="JSON, for programs.")] = False,
) -> None:
    """Take out what one finished task says, for good; that it was, and how it ended, stays.

    Gone are payload, result, output, steps, progress, the error text of every attempt, also where a note quotes it, questions,
    answers, and why it was cancelled. What stays: mode, times, kinds of error, key, tags, label, and the events with their
    reasons.

    stoker tasks erase 17 --reason "asked for by the customer"
    """
    moved = _do(context.obj, moves.ERASE, Asked((task,), Filters(), reason, actor(by), False, as_json), forced=force)
    if left := next((was for _, was, became in moved.tasks if became != "erased"), None):
        how = (
            "cancel was requested; erase it when its worker let go"
            if left == "in_progress" and force
            else "--force cancels it first"
        )
        raise UsageError(f"task {task} is {left}, not finished: nothing was erased; {how}")


def actor(by: str | None) -> str:
    """Who acts: as told, else the user of this system."""
    if by is not None:
        if not by.strip():
            raise UsageError("--by is empty: give a name")
        return by
    import getpass
    import os

    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return f"uid {os.getuid()}"


def _do(session: Session, verb: Verb, asked: Asked, become: str | None = None, **parameters: Any) -> Moved:
    tasks = _meant(session, verb, asked)
    if asked.dry_run:
        moved = moves.foresee(verb, tasks, become)
    else:
        moved = Moved()
        said = {"actor": asked.by, "reason": asked.reason, **parameters}
        for some in moves.move(session.database, verb, [task.id for task in tasks], said):
            moved.tasks += some.tasks
    _tell(verb, asked, moved)
    return moved


def _meant(session: Session, verb: Verb, asked: Asked) -> list[Standing]:
    """The tasks that are asked for; raises UsageError when it is not said which, or one is not there."""
    if bool(asked.ids) == (not asked.filters.is_empty):
        raise UsageError(f"say which tasks, by ids or by filters: stoker tasks {verb.name} 17, or --mode NAME")
    if not asked.ids:
        if (state := asked.filters.state) is not None and state not in verb.becomes:
            raise UsageError(f"{verb.name} does nothing to a task that is {state!r}; it is for: {', '.join(verb.becomes)}")
        return moves.find(session.database, verb, asked.filters)
    found = moves.look(session.database, asked.ids)
    if missing := sorted(set(asked.ids) - {task.id for task in found}):
        raise UsageError(f"there is no task {', '.join(str(task) for task in missing)}; nothing was changed")
    return found


def _tell(verb: Verb, asked: Asked, moved: Moved) -> None:
    if asked.as_json:
        tasks = [{"id": task, "was": was, "became": became} for task, was, became in moved.tasks]
        sums = {"changed": moved.changed, "unchanged": moved.unchanged}
        say_json({"action": verb.name, "dry_run": asked.dry_run, **sums, "tasks": tasks})
        return
    changed = ", ".join(f"{count:,} {'would be ' if asked.dry_run else ''}{word}" for word, count in moved.changed.items())
    unchanged = ", ".join(f"{count:,} {word}" for word, count in moved.unchanged.items())
    say(f"{verb.name}: {changed or 'nothing changed'}" + (f"; unchanged: {unchanged}" if unchanged else ""))
    if asked.dry_run and (shown := [str(task) for task, _, became in moved.tasks if became]):
        more = f", and {len(shown) - _SHOWN:,} more" if len(shown) > _SHOWN else ""
        say(f"tasks: {', '.join(shown[:_SHOWN])}{more}")
    for word in moved.unchanged:
        if word in _HINTS and verb.name != "erase":
            sys.stderr.write(f"{word}: {_HINTS[word]}\n")


def _moving(command: Callable[..., None]) -> Callable[..., None]:
    """``command`` as the command line sees it: with ids, filters, reason and the rest in place of ``asked``."""

    def run(context: typer.Context, **given: Any) -> None:
        own = {name: given.pop(name) for name in list(given) if name not in _COMMON}
        command(context.obj, _asked(given), **own)

    own = list(inspect.signature(command).parameters.values())[2:]
    parameters = [inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)]
    parameters += [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=kind, default=default)
        for name, (kind, default) in _COMMON.items()
    ]
    parameters += [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in own]
    run.__name__, run.__doc__ = command.__name__, command.__doc__
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {one.name: one.annotation for one in parameters}
    return run


_COMMON: dict[str, tuple[Any, Any]] = {
    "ids": (Annotated[Optional[list[int]], typer.Argument(help="Which tasks; or give filters.")], None),  # noqa: UP045
    "mode": (Annotated[Optional[str], typer.Option(help="Only this mode.")], None),  # noqa: UP045
    "state": (Annotated[Optional[str], typer.Option(help="Only this state.")], None),  # noqa: UP045
    "older_than": (
        Annotated[str | None, typer.Option(help='In their state (queued: in all) for longer, such as "7d".')],
        None,
    ),
    "kind": (Annotated[Optional[str], typer.Option(help="Only this kind of error.")], None),  # noqa: UP045
    "tag": (Annotated[Optional[str], typer.Option(help="Only those with this tag.")], None),  # noqa: UP045
    "key": (Annotated[Optional[str], typer.Option(help="Only the one with this key.")], None),  # noqa: UP045
    "reason": (Annotated[Optional[str], typer.Option(help="Why, for the events.")], None),  # noqa: UP045
    "by": (Annotated[Optional[str], typer.Option(help="Who asks; default: the user of this system.")], None),  # noqa: UP045
    "dry_run": (Annotated[bool, typer.Option("--dry-run", help="Only count and show what would happen.")], False),
    "as_json": (Annotated[bool, typer.Option("--json", help="JSON, for programs.")], False),
}


def _asked(given: dict[str, Any]) -> Asked:
    from stoker.sql.units import parse_duration

    older = given["older_than"]
    try:
        seconds = None if older is None else parse_duration(older)
    except ValueError as error:
        raise UsageError(f"--older-than: {error}") from None
    if (reason := given["reason"]) is not None and len(reason) > _LONGEST_REASON:
        raise UsageError(f"--reason has {len(reason):,} characters, above the limit of {_LONGEST_REASON:,}")
    filters = Filters(given["mode"], given["state"], seconds, given["kind"], given["tag"], given["key"])
    return Asked(tuple(given["ids"] or ()), filters, given["reason"], actor(given["by"]), given["dry_run"], given["as_json"])
