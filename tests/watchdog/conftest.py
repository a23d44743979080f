"""A project on a database of its own, and a connection to it."""

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from tests.end_to_end.project import Project
from tests.watchdog.scenes import Connection, Sink


@pytest.fixture
def project(database: str, tmp_path: Path) -> Iterator[Project]:
    """A folder to write config.toml and jobs.py into; nothing of it is left running."""
    made = Project(tmp_path, database)
    yield made
    made.end()


@pytest.fixture
def connection(database: str) -> Iterator[Connection]:
    with psycopg.connect(database, autocommit=True) as made:
        yield made


@pytest.fixture
def sink() -> Iterator[Sink]:
    made = Sink()
    yield made
    made.server.shutdown()
    made.server.server_close()
