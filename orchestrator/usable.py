"""Whether what the configuration names can be used here: each is tried in a process of its own, as it would be started."""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence

import anyio

from stoker.hygiene.process import spawn
from stoker.orchestrator.config import Config
from stoker.orchestrator.config_lines import place_of
from stoker.worker.asking import ask
from stoker.worker.health import as_stored
from stoker.worker.orders import BASE_ENVIRONMENT

_IMPORT_SECONDS = 30.0
_WORDS_LIMIT = 200
_PROBE = """
import importlib, inspect, os, sys, traceback
name, folder, arguments, concurrency = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
sys.path.insert(0, folder)
module, _, attribute = name.partition(":")
try:
    found = importlib.import_module(module)
    for part in attribute.split("."):
        found = getattr(found, part)
    if not callable(found):
        raise TypeError(f"{name} is not callable")
    inspect.signature(found).bind(*[object()] * arguments)
    call = getattr(found, "__call__", None)
    if concurrency > 1 and not (inspect.iscoroutinefunction(found) or inspect.iscoroutinefunction(call)):
        raise TypeError(f"concurrency = {concurrency} needs an async handler, and this is none")
except BaseException as error:
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename.startswith(folder)]
    place = (error.filename, error.lineno) if isinstance(error, SyntaxError) else frames and frames[-1][:2]
    where = f" ({os.path.relpath(place[0], folder)}, line {place[1]})" if place and place[0] else ""
    sys.exit(f"{type(error).__name__}: {str(error).split(chr(10))[0].split(' (')[0].rstrip('?.')}{where}")
"""

Tried = tuple[bool, str]
"""Whether it can be used, and what was found, or what to do."""


def try_mode(config: Config, name: str) -> Tried:
    """A mode's program or handler."""
    mode = config.modes[name]
    if mode.command:
        return _found(config, mode.command[0])
    what = f"{mode.handler} imports and takes a task"
    return _imported(config, mode.handler, mode.env, what, ("modes", name, "handler"), 1, mode.concurrency)


def try_loop(config: Config, name: str) -> Tried:
    """A loop's program or handler, which takes nothing."""
    loop = config.loops[name]
    if loop.command:
        return _found(config, loop.command[0])
    at = ("loops", list(config.loops).index(name), "handler")
    return _imported(config, loop.handler, loop.env, f"{loop.handler} imports and takes nothing", at, 0, 1)


def try_health(config: Config, name: str) -> Tried:
    """What a mode says of itself."""
    mode = config.modes[name]
    environment = {name: os.environ[name] for name in (*BASE_ENVIRONMENT, *mode.env) if name in os.environ}
    words = anyio.run(ask, mode.health, str(config.folder), environment)
    if words is None:
        return True, f"{mode.health} says that it can do its work here"
    secrets = {name: value for name, value in environment.items() if name in mode.env}
    return False, f"{as_stored(words, mode.errors, secrets)[:300]}. Its workers take no task."


def _found(config: Config, program: str) -> Tried:
    beside = str(config.folder / program) if os.sep in program else program
    found = shutil.which(beside)
    return found is not None, found or f"program {program!r} is not found or not executable"


def _imported(
    config: Config, handler: str, env: Sequence[str], what: str, at: tuple[str | int, ...], arguments: int, concurrency: int
) -> Tried:
    probe = spawn(
        [sys.executable, "-P", "-c", _PROBE, handler, str(config.folder), str(arguments), str(concurrency)],
        env={name: os.environ[name] for name in ("PATH", "HOME", "LANG", *env) if name in os.environ},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        die_with_parent=True,
    )
    where = place_of(config.path, *at)
    try:
        _, said = probe.popen.communicate(timeout=_IMPORT_SECONDS)
    except subprocess.TimeoutExpired:
        probe.popen.kill()
        probe.popen.wait()
        return False, f"{handler} takes more than {_IMPORT_SECONDS:.0f} s to import. It is named in {where}."
    if probe.popen.returncode == 0:
        return True, what
    last = said.decode("utf-8", "replace").strip().splitlines()[-1:] or ["it ended without a word"]
    looked = f"It is named in {where}, and looked for in {config.folder} and in the environment."
    return False, f"{handler} cannot be used: {last[0][:_WORDS_LIMIT]}. {looked}"
