"""A project on a database of its own."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.end_to_end.project import Project


@pytest.fixture
def project(database: str, tmp_path: Path) -> Iterator[Project]:
    """A folder to write config.toml and jobs.py into; nothing of it is left running."""
    made = Project(tmp_path, database)
    yield made
    made.end()
