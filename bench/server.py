"""A folder with the measured handlers, a PostgreSQL of its own in it, and the stoker command as a real process."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg

from stoker.hygiene.process import become_subreaper, end_strays
from stoker.sql import embedded
from stoker.sql.migrate import migrate

TOP = Path(__file__).resolve().parent.parent
SETTINGS = {"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on"}
"""A commit is on disk before it is answered. Everything else is the embedded server's own."""

_SHOWN = ("server_version", *SETTINGS, "wal_level", "shared_buffers", "max_wal_size", "data_checksums")
_LIMIT_SECONDS = 120.0
_KEPT = ("PATH", "HOME", "LANG", "TMPDIR")


class BenchError(Exception):
    """What was to be measured did not happen; the text says what was seen instead."""


@dataclass
class Site:
    """The folder, the server's URL, and the processes that were started and may still run."""

    folder: Path
    url: str
    started: list[subprocess.Popen[str]] = field(default_factory=list)

    def fire(self, mode: str, workers: int, **environment: str) -> subprocess.Popen[str]:
        """Start ``stoker fire`` for one mode, with a pool of ``workers``, and leave it running."""
        return self.start([stoker_command(), "fire", "--mode", mode], STOKER_LIMITS_MAX_POOL=str(workers), **environment)

    def start(self, command: list[str], **environment: str) -> subprocess.Popen[str]:
        """Start a command in the folder; no setting of the caller's environment reaches it."""
        kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
        process = subprocess.Popen(
            command,
            cwd=self.folder,
            env={**kept, "PYTHONPATH": str(TOP), "STOKER_LOG_LEVEL": "warning", **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.started.append(process)
        return process

    def query(self, statement: str, **parameters: Any) -> list[tuple[Any, ...]]:
        """Rows, on a connection of the bench's own."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            cursor = connection.execute(statement.encode(), parameters or None)
            return cursor.fetchall() if cursor.description else []

    def settings(self) -> dict[str, str]:
        """The server's settings that matter here."""
        return {name: str(self.query("select current_setting(%(name)s)", name=name)[0][0]) for name in _SHOWN}

    def stamps(self) -> list[float]:
        """When the stamped tasks started, monotonic seconds, earliest first."""
        ledger = self.folder / "started"
        return sorted(float(line.split()[0]) for line in ledger.read_text().splitlines()) if ledger.exists() else []

    def open_gate(self) -> None:
        """Let the held tasks end."""
        (self.folder / "gate").touch()

    def forget(self) -> None:
        """Close the gate and forget the stamps."""
        for name in ("gate", "started"):
            (self.folder / name).unlink(missing_ok=True)

    def end(self) -> None:
        """End what still runs: TERM, and KILL for what does not hear it."""
        for process in self.started:
            if process.poll() is None:
                process.terminate()
                try:
                    process.wait(30)
                except subprocess.TimeoutExpired:
                    process.kill()
            process.communicate()


def finish(process: subprocess.Popen[str]) -> str:
    """Wait for a command that must succeed; what it printed."""
    output, _ = process.communicate(timeout=_LIMIT_SECONDS)
    if process.returncode != 0:
        raise BenchError(f"{process.args!r} ended with {process.returncode}: {output[-2000:]}")
    return output


def wait_until(holds: Callable[[], bool], process: subprocess.Popen[str], what: str) -> None:
    """Wait for a condition while ``process`` lives."""
    deadline = time.monotonic() + _LIMIT_SECONDS
    while not holds():
        if process.poll() is not None and not holds():
            raise BenchError(f"{what} did not happen; the fire ended: {process.communicate()[0][-2000:]}")
        if time.monotonic() > deadline:
            raise BenchError(f"{what} did not happen in {_LIMIT_SECONDS:g} s")
        time.sleep(0.01)


def stoker_command() -> str:
    """The installed console script of this Python."""
    beside = Path(sys.executable).with_name("stoker")
    found = str(beside) if beside.exists() else shutil.which("stoker")
    if found is None:
        raise BenchError("the stoker command is not installed: pip install --editable '.[embedded]'")
    return found


@contextmanager
def opened() -> Iterator[Site]:
    """A warm, migrated, empty database with the handlers beside it; afterwards no process and no folder is left."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    become_subreaper()
    with tempfile.TemporaryDirectory(prefix="stoker-bench-") as name:
        folder = Path(name)
        for source in ("config.toml", "jobs.py"):
            shutil.copy(TOP / "bench" / "handlers" / source, folder)
        home = folder / ".stoker"
        site = None
        try:
            site = Site(folder, embedded.ensure(home, embedded.Options(settings=SETTINGS)))
            migrate(site.url)
            yield site
        finally:
            try:
                if site is not None:
                    site.end()
                embedded.stop(home)
            finally:
                end_strays()
