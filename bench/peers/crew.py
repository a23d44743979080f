"""A peer's worker processes: they connect, wait at a gate, and all start to work in the same moment.

A worker prints ``ready`` once it is connected, works from the first line on its standard input to the end of it, and then
prints how many tasks its handler was given.
"""

import os
import select
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from bench.server import BenchError, Site, finish

_LIMIT_SECONDS = 60.0
_KEPT = ("PATH", "HOME", "LANG", "TMPDIR")

Crew = list[subprocess.Popen[str]]


@contextmanager
def at_the_gate(site: Site, command: list[str], workers: int) -> Iterator[Crew]:
    """``workers`` processes, connected and waiting. Afterwards none is left; if all went well, each was ended in order."""
    with (site.folder / "peers.log").open("a") as log:
        crew = [_start(site, command, log.fileno()) for _ in range(workers)]
    try:
        for process in crew:
            _wait_until_ready(site, process)
        yield crew
    finally:
        for process in crew:
            if process.returncode is None:
                process.kill()
                process.communicate()


def open_gate(crew: Crew) -> None:
    """Let all of them begin."""
    for process in crew:
        assert process.stdin
        process.stdin.write("go\n")
        process.stdin.flush()


def dismiss(crew: Crew) -> list[int]:
    """End them in order; how many tasks each was given."""
    return [int(finish(process)) for process in crew]


def last_words(site: Site) -> str:
    """The end of what peers wrote on standard error."""
    log = site.folder / "peers.log"
    return log.read_text()[-500:] if log.exists() else ""


def _start(site: Site, command: list[str], log: int) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        command,
        cwd=site.folder,
        env={name: os.environ[name] for name in _KEPT if name in os.environ},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=log,
        text=True,
    )
    site.started.append(process)
    return process


def _wait_until_ready(site: Site, process: subprocess.Popen[str]) -> None:
    assert process.stdout
    seen, _, _ = select.select([process.stdout], [], [], _LIMIT_SECONDS)
    if not seen or process.stdout.readline() != "ready\n":
        raise BenchError(f"a worker did not get ready: {last_words(site)}")
