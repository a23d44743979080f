"""A peer: its database on the bench's server, and a backlog in it, loaded by the peer's own bulk call."""

from dataclasses import dataclass
from urllib.parse import urlsplit

import psycopg

from bench.server import Site, finish


@dataclass(frozen=True, slots=True)
class Peer:
    """One peer. ``empty`` and ``unfinished`` are statements on its tables; ``tasks`` is a backlog of some seconds.

    Its program (programs/) takes ``install URL``, ``load URL COUNT`` and ``work URL``.
    """

    name: str
    program: str
    tasks: int
    empty: str
    unfinished: str

    @property
    def database(self) -> str:
        """The name of its database."""
        return f"peer_{self.name.replace('-', '_')}"

    def url(self, site: Site) -> str:
        """Its database on the bench's server."""
        return urlsplit(site.url)._replace(path=f"/{self.database}").geturl()

    def install(self, site: Site, command: list[str]) -> None:
        """Make its database, and let the peer put its schema in."""
        site.query(f"create database {self.database}")
        finish(site.start([*command, "install", self.url(site)]))

    def load(self, site: Site, command: list[str]) -> None:
        """Empty its tables, write a checkpoint, let it load the backlog, and give the planner its statistics."""
        with psycopg.connect(self.url(site), autocommit=True) as connection:
            connection.execute(self.empty.encode())
            connection.execute("checkpoint")
            finish(site.start([*command, "load", self.url(site), str(self.tasks)]))
            connection.execute("analyze")
