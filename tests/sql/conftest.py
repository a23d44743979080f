"""What the tests of the queue ask for besides a database: a way to speak to it, and an open fire."""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from tests.sql.factory import open_fire, register

from stoker.sql.database import Database
from stoker.sql.target import Target


@pytest.fixture
def stoker(database: str) -> Iterator[Database]:
    """The database, as a room speaks to it."""
    made = Database(Target(database), patience_seconds=5.0)
    yield made
    made.close()


@pytest.fixture
def connection(database: str) -> Iterator[psycopg.Connection[Any]]:
    """An autocommit connection of the test's own."""
    with psycopg.connect(database, autocommit=True, options="-c search_path=pg_catalog") as made:
        yield made


@pytest.fixture
def fire(stoker: Database) -> int:
    """An open fire."""
    return open_fire(stoker)


@pytest.fixture
def worker(stoker: Database, fire: int) -> str:
    """A worker of that fire."""
    return register(stoker, fire)
