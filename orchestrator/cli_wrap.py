"""``stoker wrap``: an existing cron job, with a ledger, limits, a note and a watchdog, before there is any queue."""

import os
import shutil
import sys
from pathlib import Path
from typing import Annotated, Optional

import typer

from stoker.orchestrator.session import Session, UsageError, say

NOT_FOUND = 127
_HOME_CONFIG = "# stoker wrap made this file, since there was no config.toml where it was started.\n"


def add_to(app: typer.Typer) -> None:
    """Add this command to the command line."""
    app.command()(wrap)


def wrap(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="The job's name: its lane, and its mode in what is shown.")],
    command: Annotated[Optional[list[str]], typer.Argument(help="The program and its arguments, after --.")] = None,  # noqa: UP045
    time_limit: Annotated[Optional[str], typer.Option(help="When it is ended; default: limits.wall_clock.")] = None,  # noqa: UP045
    expect: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(help='How often it is to run, such as "24h": else the watchdog pages; "none": not any more.'),
    ] = None,
    exit_code: Annotated[bool, typer.Option("--exit-code", help="Exit 11 if it was refused.")] = False,
) -> None:
    """Run a program as a fire of its own: never twice at once, ended at its limit with all it started, one note.

    stoker wrap backup --time-limit 2h --expect 24h -- pg_dump -f /backup/shop.sql shop

    Its environment and folder are yours, its exit status is passed on (124: it was ended at its limit), and what it printed is
    shown when it is over, and kept: stoker logs TASK. Without a config.toml the embedded database is in ~/.local/state/stoker.
    """
    from contextlib import closing

    from stoker.orchestrator.failures import UNREACHABLE
    from stoker.orchestrator.fire_command import REFUSED, deliver
    from stoker.orchestrator.launchers.local import LocalLauncher
    from stoker.orchestrator.logs import log
    from stoker.orchestrator.wrapped import Wrapped, WrappedFire
    from stoker.orchestrator.wrapped import exit_code as passed_on

    if not command and expect is None:
        raise UsageError("say which program, after --: stoker wrap backup -- pg_dump shop")
    session = _session(context.obj)
    if expect is not None:
        _expect(session, name, expect, say_so=not command)
    if not command:
        return
    if shutil.which(command[0]) is None:
        sys.stderr.write(f"stoker: {name}: program {command[0]!r} is not found or not executable; nothing was started\n")
        raise typer.Exit(NOT_FOUND)
    wrapped = Wrapped(_checked(session, name), tuple(command), str(Path.cwd()), _seconds(session, time_limit))
    with closing(LocalLauncher(os.environ)) as launcher:
        fire = WrappedFire(session.database, session.config, os.environ, wrapped, launcher)
        ended = fire.run()
    if ended.refusal is not None:
        log("not started", job=name, reason=ended.refusal)
        raise typer.Exit(REFUSED if exit_code else 0)
    if fire.task is None:
        raise typer.Exit(UNREACHABLE)
    for _, output in session.database.run("list_outputs", id=fire.task):
        sys.stdout.write(output if output.endswith("\n") or not output else output + "\n")
    sys.stdout.flush()
    deliver(session, ended)
    attempts = session.database.run("list_attempts", id=fire.task)
    verdict, kind = attempts[-1][3:5] if attempts else (None, "not started")
    if ended.signal_number:
        raise typer.Exit(128 + ended.signal_number)
    if verdict != "done":
        sys.stderr.write(f"stoker: {name}: {kind} (fire {ended.fire})\n")
    raise typer.Exit(passed_on(verdict, kind))


def _session(session: Session) -> Session:
    """As configured; without any config.toml, one that is the user's own."""
    from stoker.orchestrator.config_errors import ConfigError
    from stoker.orchestrator.config_layers import find

    try:
        path = find(session.path, os.environ)
    except ConfigError:
        folder = Path(os.environ.get("XDG_STATE_HOME") or "~/.local/state").expanduser() / "stoker"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = folder / "config.toml"
        if not path.exists():
            path.write_text(_HOME_CONFIG, "utf-8")
            sys.stderr.write(f"stoker: there is no config.toml here; wrote {path}, and its database is beside it\n")
    return Session(str(path), needs_modes=False)


def _checked(session: Session, name: str) -> str:
    from stoker.worker.settings import MODE_NAME

    if not MODE_NAME.fullmatch(name):
        raise UsageError("a job's name is 1 to 63 characters of a-z 0-9 _ . - and begins with a letter")
    if name in session.config.modes:
        raise UsageError(f"{name} is a mode of {session.config.path}; give the job another name")
    return name


def _expect(session: Session, name: str, text: str, *, say_so: bool) -> None:
    """Tell the watchdog how often it is to run; without a program that is all that is done."""
    seconds = None if text == "none" else _duration("--expect", text)
    session.database.run("expect_lane", lane=_checked(session, name), expected=seconds)
    if say_so:
        say(f"{name} is not expected any more" if seconds is None else f"{name} is expected every {text}")


def _seconds(session: Session, time_limit: str | None) -> float:
    if time_limit is None:
        return session.config.limits.wall_clock_seconds or 24 * 3600.0
    return _duration("--time-limit", time_limit)


def _duration(option: str, text: str) -> float:
    from stoker.sql.units import parse_duration

    try:
        seconds = parse_duration(text)
    except ValueError as error:
        raise UsageError(f"{option} {text!r} {error}") from None
    if seconds <= 0:
        raise UsageError(f"{option} must be longer than nothing")
    return seconds
