"""Peers, installed when they are first needed, each into a folder of its own, in the versions of pins.toml.

Python's: a virtual environment each, by pip. Node's: ``node_modules`` each, by npm, both with whatever index they are
configured for. The pins are written beside them, so that a changed pin installs anew.
"""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from functools import cache
from pathlib import Path

from bench.peers.peer import Peer
from bench.report import progress
from bench.server import TOP

FOLDER = TOP / "bench" / ".peers"
NODE_LEAST = (22, 18)
_HERE = Path(__file__).parent
_STAMP = "installed.txt"
_LIMIT_SECONDS = 600


class MissingError(Exception):
    """A peer cannot be had here; the text says why."""


def command(peer: Peer, folder: Path) -> list[str]:
    """What starts the peer's program, once it is installed under ``folder``. Raises MissingError."""
    pin = pins()[peer.name]
    home, program = folder / peer.name, _HERE / "programs" / peer.program
    if "pip" in pin:
        python = home / "bin" / "python"
        _once(home, pin["pip"], lambda: _venv(home, python, pin["pip"]))
        return [str(python), "-P", str(program)]
    node = _node(folder)
    _once(home, pin["npm"], lambda: _npm(home, pin["npm"]))
    # A module finds its imports in the node_modules beside it.
    shutil.copy(program, home)
    return [node, str(home / peer.program)]


@cache
def pins() -> dict[str, dict[str, list[str]]]:
    """The versions, by peer and installer."""
    return tomllib.loads((_HERE / "pins.toml").read_text())


def version(peer: Peer) -> str:
    """The pinned version of the peer itself."""
    ((first, *_),) = pins()[peer.name].values()
    return re.split("==|@", first)[1]


def is_new_enough(node_version: str) -> bool:
    """Whether ``node --version`` says at least what Node's peers ask for."""
    numbers = re.match(r"v(\d+)\.(\d+)", node_version)
    return numbers is not None and (int(numbers[1]), int(numbers[2])) >= NODE_LEAST


def _node(folder: Path) -> str:
    own = shutil.which("node")
    if own and is_new_enough(subprocess.run([own, "--version"], capture_output=True, text=True, check=False).stdout):
        return own
    home, pin = folder / "node", pins()["node"]["npm"]
    _once(home, pin, lambda: _npm(home, pin))
    return str(home / "node_modules" / "node" / "bin" / "node")


def _once(home: Path, pin: list[str], install: Callable[[], None]) -> None:
    stamp = home / _STAMP
    wanted = "\n".join(pin)
    if stamp.exists() and stamp.read_text() == wanted:
        return
    progress(f"installing {', '.join(pin)} into {home}")
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    install()
    stamp.write_text(wanted)


def _venv(home: Path, python: Path, packages: list[str]) -> None:
    _run([sys.executable, "-m", "venv", str(home)])
    _run([str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages])


def _npm(home: Path, packages: list[str]) -> None:
    if shutil.which("npm") is None:
        raise MissingError("Node's npm is not installed")
    _run(["npm", "install", "--no-audit", "--no-fund", "--loglevel", "error", "--prefix", str(home), *packages])


def _run(line: list[str]) -> None:
    try:
        done = subprocess.run(line, capture_output=True, text=True, check=False, timeout=_LIMIT_SECONDS, env=os.environ)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise MissingError(f"could not be installed: {error}") from None
    if done.returncode:
        last = (done.stderr or done.stdout).strip().splitlines() or ["no reason was given"]
        raise MissingError(f"could not be installed: {last[-1][:200]}")
