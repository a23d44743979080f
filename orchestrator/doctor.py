"""What is wrong here, and what to do: configuration, database, schema version, clock skew, handlers."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

import anyio

from stoker.hygiene.outbox import undelivered, undelivered_words
from stoker.hygiene.process import spawn
from stoker.hygiene.restored import RestoredError
from stoker.orchestrator.config import Config
from stoker.orchestrator.config_errors import ConfigError
from stoker.orchestrator.door import door_of
from stoker.orchestrator.session import Session
from stoker.orchestrator.snapshot import unserved, why_unserved
from stoker.sql.database import DatabaseUnreachableError
from stoker.sql.migrate import SchemaVersionError
from stoker.sql.new_task import EnqueueError
from stoker.worker.asking import ask
from stoker.worker.health import as_stored
from stoker.worker.orders import BASE_ENVIRONMENT

_SKEW_SECONDS = 5.0
_IMPORT_SECONDS = 30.0
_PROBE = """
import importlib, inspect, os, sys, traceback
sys.path.insert(0, sys.argv[2])
module, _, attribute = sys.argv[1].partition(":")
try:
    found = importlib.import_module(module)
    for part in attribute.split("."):
        found = getattr(found, part)
    inspect.signature(found).bind(object())
    call = getattr(found, "__call__", None)
    if int(sys.argv[3]) > 1 and not (inspect.iscoroutinefunction(found) or inspect.iscoroutinefunction(call)):
        raise TypeError(f"concurrency = {sys.argv[3]} needs an async handler, and this is none")
except BaseException as error:
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename.startswith(sys.argv[2])]
    place = (error.filename, error.lineno) if isinstance(error, SyntaxError) else frames and frames[-1][:2]
    where = f" ({os.path.relpath(place[0], sys.argv[2])}, line {place[1]})" if place and place[0] else ""
    sys.exit(f"{type(error).__name__}: {str(error).split(chr(10))[0].split(' (')[0].rstrip('?.')}{where}")
"""


@dataclass(frozen=True, slots=True)
class Finding:
    """One check: ``ok`` is None when it could not be made. The text says what was found, or what to do."""

    name: str
    ok: bool | None
    text: str


def examine(session: Session) -> list[Finding]:
    """Every check, in the order in which one needs the other."""
    try:
        config = session.config
    except ConfigError as error:
        return [Finding("configuration", False, str(error))]
    found = [Finding("configuration", True, f"{config.path}, {len(config.modes)} mode(s)")]
    found += [Finding("configuration", False, warning) for warning in config.warnings]
    found += list(_database(session))
    found += [_handler(config, name) for name in config.served]
    found += [_health(config, name) for name, mode in config.served.items() if mode.health]
    found += [_model(config, name) for name, mode in config.served.items() if mode.model]
    return found


def _database(session: Session) -> Iterator[Finding]:
    try:
        database = session.database
    except (DatabaseUnreachableError, SchemaVersionError) as error:
        what = "schema" if isinstance(error, SchemaVersionError) else "database"
        yield Finding(what, False, str(error) if what == "schema" else f"{error}. Check [database] url, and that it runs.")
        return
    ((version, now),) = database.run("server_facts")
    yield Finding("database", True, f"PostgreSQL {version}, {'embedded' if session.config.embedded else 'configured'}")
    yield Finding("schema", True, f"{database.target.schema} is at the version this stoker needs")
    skew = abs((datetime.now(UTC) - now).total_seconds())
    text = f"this host's clock and the database's differ by {skew:.1f} s"
    yield Finding(
        "clock",
        skew < _SKEW_SECONDS,
        text if skew < _SKEW_SECONDS else f"{text}. Leases use the database's; set the host's right.",
    )
    yield from _strange_fires(session)
    yield from _other_interlocks(session)
    for mode, by, reason, since in session.database.run("list_paused"):
        yield Finding(
            "paused", True, f"{mode}, by {by} since {since:%Y-%m-%d %H:%M}: {reason}. To go on: stoker unpause {mode}"
        )
    for kept in undelivered(database):
        known = kept["channel"] in session.config.notify or not kept["waiting"]
        hint = "See: stoker outbox" if known else "No channel of this name is configured here"
        if kept["failing"] or kept["dead"] or kept["held"] or not known:
            yield Finding("delivery", False, f"{undelivered_words(kept)}. {hint}")
    for one in unserved(database, session.config):
        yield Finding("queue", False, f"{why_unserved(*one, session.config)}. Does another host run it? Else install its code.")


def _strange_fires(session: Session) -> Iterator[Finding]:
    """A loaded dump is known; in a copy of the server's files a fire of a boot that nobody knows is a sign."""
    ((_, _, is_restored, _),) = session.database.run("installation")
    if is_restored:
        yield Finding("restored", False, str(RestoredError()))
    for fire, host, opened_at in session.database.run("strange_fires"):
        text = f"fire {fire} is open since {opened_at:%Y-%m-%d %H:%M}, of a boot of {host} that is not known here"
        yield Finding("open fire", False, f"{text}. If this database was restored: stoker restored")


def _other_interlocks(session: Session) -> Iterator[Finding]:
    rows = session.database.run("last_interlocks")
    if rows:
        limits = session.config.limits
        recorded, fire = rows[0]
        mine = {"fires_per_day": limits.fires_per_day, "max_pool": limits.max_pool, "task_cap": limits.task_cap}
        other = {name: value for name, value in mine.items() if recorded.get(name) != value}
        text = (
            f"as in the last fire ({fire})"
            if not other
            else f"differ from those of the last fire ({fire}): {', '.join(other)}. Is another host's config.toml older?"
        )
        yield Finding("interlocks", not other, text)


def _model(config: Config, name: str) -> Finding:
    try:
        door_of(config, only=name)
    except EnqueueError as error:
        return Finding(f"mode {name}", False, str(error))
    return Finding(f"mode {name}", True, f"{config.modes[name].model} is a model")


def _health(config: Config, name: str) -> Finding:
    mode = config.modes[name]
    environment = {name: os.environ[name] for name in (*BASE_ENVIRONMENT, *mode.env) if name in os.environ}
    words = anyio.run(ask, mode.health, str(config.folder), environment)
    if words is None:
        return Finding(f"mode {name}", True, f"{mode.health} says that it can do its work here")
    secrets = {name: value for name, value in environment.items() if name in mode.env}
    return Finding(f"mode {name}", False, f"{as_stored(words, mode.errors, secrets)[:300]}. Its workers take no task.")


def _handler(config: Config, name: str) -> Finding:
    mode = config.modes[name]
    if mode.command:
        program = mode.command[0]
        beside = str(config.folder / program) if os.sep in program else program
        found = shutil.which(beside)
        return Finding(f"mode {name}", found is not None, found or f"program {program!r} is not found or not executable")
    probe = spawn(
        [sys.executable, "-P", "-c", _PROBE, mode.handler, str(config.folder), str(mode.concurrency)],
        env={name: os.environ[name] for name in ("PATH", "HOME", "LANG", *mode.env) if name in os.environ},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        die_with_parent=True,
    )
    try:
        _, said = probe.popen.communicate(timeout=_IMPORT_SECONDS)
    except subprocess.TimeoutExpired:
        probe.popen.kill()
        probe.popen.wait()
        return Finding(f"mode {name}", False, f"{mode.handler} takes more than {_IMPORT_SECONDS:.0f} s to import")
    if probe.popen.returncode == 0:
        return Finding(f"mode {name}", True, f"{mode.handler} imports and takes a task")
    last = said.decode("utf-8", "replace").strip().splitlines()[-1:] or ["it ended without a word"]
    return Finding(
        f"mode {name}",
        False,
        f"{mode.handler} cannot be used: {last[0][:200]}. It is looked for in {config.folder} and in the environment.",
    )
