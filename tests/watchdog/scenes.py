"""What a look may find: a watch on a real database, and heartbeats as they come and go."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg

from stoker.sql.database import Database
from stoker.sql.target import Target
from stoker.watchdog.pages import Pager
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
