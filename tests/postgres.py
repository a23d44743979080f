"""A real PostgreSQL for the tests: one throw-away cluster per test process, one cloned database per test."""

import itertools
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from stoker.sql import embedded

MAJORS = (18, 17, 16, 15)
# In memory where there is room: making the files of a database is what a clone costs.
_MEMORY = Path("/dev/shm")
_ROOM_BYTES = 2 * 1024**3


class Cluster:
    """A server that a test may restart or kill; without fsync, so a lost machine would lose it."""

    def __init__(self, home: Path, major: int | None = None) -> None:
        self.home = home
        self._options = embedded.Options(major=major, settings={"fsync": "off"})
        self._numbers = itertools.count(1)

    def start(self) -> None:
        """Start the server, or find it running; after this it answers."""
        embedded.ensure(self.home, self._options)

    def stop(self) -> None:
        """Shut down as an operator would: sessions are ended, nothing is lost."""
        embedded.stop(self.home)

    def restart(self) -> None:
        """Stop and start; every session is lost."""
        self.stop()
        self.start()

    def kill(self) -> None:
        """SIGKILL the server's first process, as the OOM killer does; ``start`` then recovers."""
        os.kill(self.pid, signal.SIGKILL)

    @property
    def pid(self) -> int:
        """The server's first process."""
        return int((self.home / "data" / "postmaster.pid").read_text().split()[0])

    def url(self, database: str = "stoker") -> str:
        """The URL of one database of a server that runs."""
        url = embedded.url(self.home)
        assert url is not None, "the server does not run"
        return url.replace("@/stoker?", f"@/{database}?")

    def create(self, template: str = "template1") -> str:
        """Make a database as a copy of ``template``; its name."""
        name = f"test_{next(self._numbers)}"
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(f"create database {name} template {template} strategy file_copy")
        return name

    def drop(self, name: str) -> None:
        """Remove a database, whoever is connected to it."""
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(f"drop database if exists {name} with (force)")


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """A folder with a short path, removed afterwards."""
    roomy = os.access(_MEMORY, os.W_OK) and shutil.disk_usage(_MEMORY).free > _ROOM_BYTES
    with tempfile.TemporaryDirectory(prefix="stoker", dir=_MEMORY if roomy else None) as folder:
        yield Path(folder)


@contextmanager
def throw_away_cluster() -> Iterator[Cluster]:
    """A running cluster of the major version in STOKER_TEST_POSTGRES, else of the newest found; gone afterwards."""
    wanted = os.environ.get("STOKER_TEST_POSTGRES")
    with temporary_folder() as folder:
        cluster = Cluster(folder / "pg", int(wanted) if wanted else installed_majors()[0])
        try:
            cluster.start()
            yield cluster
        finally:
            cluster.stop()


def installed_majors() -> list[int]:
    """The major versions that can be tested here, newest first."""
    return [major for major in MAJORS if _is_installed(major)]


def _is_installed(major: int) -> bool:
    try:
        embedded.find_binaries(major)
    except embedded.NoBinariesError:
        return False
    return True
