"""A watch on a real database, and a receiver of its pages on loopback."""

import json
import threading
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import psycopg

from stoker.sql.database import Database
from stoker.sql.target import Target
from stoker.watchdog.channels import Pager
from stoker.watchdog.settings import WatchdogSettings
from stoker.watchdog.watch import Watch

Connection = psycopg.Connection[Any]
NOW = datetime(2026, 12, 1, 10, 0, tzinfo=UTC)


def ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


def watch(database: str, folder: Path, clock: Any = None, **keys: Any) -> Watch:
    settings = WatchdogSettings.of({"quiet": "10s", **keys})
    own = Database(Target(database, connect_timeout=1.0), patience_seconds=0.2)
    return Watch(own, settings, Pager(settings, folder), folder / "state", **({"clock": clock} if clock else {}))


def open_causes(connection: Connection) -> list[str]:
    rows = connection.execute("select cause from stoker.incidents where resolved_at is null order by cause").fetchall()
    return [cause for (cause,) in rows]


class Sink:
    """A server that keeps what it is told; ``status`` is what it answers."""

    def __init__(self) -> None:
        self.status = 200
        self.told: list[tuple[str, dict[str, str], bytes]] = []
        sink = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                sink.told.append((self.path, dict(self.headers), body))
                self.send_response(sink.status)
                self.send_header("Location", "/elsewhere")
                self.end_headers()

            do_GET = do_POST  # noqa: N815 - as the server calls it

            def log_message(self, *_: Any) -> None:
                """Nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}"

    @property
    def pages(self) -> list[dict[str, Any]]:
        return [json.loads(body) for _, _, body in self.told if body]

    @property
    def actions(self) -> list[tuple[str, str]]:
        return [(page["action"], page["cause"]) for page in self.pages]
