"""What every test may ask for: a real server, and a migrated database of its own."""

from collections.abc import Iterator

import pytest
from tests.postgres import Cluster, throw_away_cluster


@pytest.fixture(scope="session")
def _cluster() -> Iterator[Cluster]:
    with throw_away_cluster() as cluster:
        yield cluster


@pytest.fixture
def cluster(_cluster: Cluster) -> Cluster:
    """The server, which runs; a test that stopped or killed it leaves the next start to the next test."""
    _cluster.start()
    return _cluster


@pytest.fixture(scope="session")
def _template(_cluster: Cluster) -> str:
    from stoker.sql.migrate import migrate

    _cluster.start()
    name = _cluster.create()
    migrate(_cluster.url(name), "stoker")
    return name


@pytest.fixture
def database(cluster: Cluster, _template: str) -> Iterator[str]:
    """The URL of a fresh database with stoker's schema in it, dropped afterwards."""
    name = cluster.create(_template)
    yield cluster.url(name)
    cluster.start()
    cluster.drop(name)
