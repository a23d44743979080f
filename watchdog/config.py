"""Where the watchdog finds config.toml, and the two sections of it that it needs."""

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stoker.sql.section import SectionError, kind_of
from stoker.sql.settings import DatabaseSettings
from stoker.sql.target import Target
from stoker.watchdog.settings import WatchdogSettings


class WatchdogConfigError(Exception):
    """The file cannot be used; the text says which, where and why, and quotes no value."""


@dataclass(frozen=True, slots=True)
class WatchdogConfig:
    """The file's folder, where the database is and how to speak to it, and what is expected.

    ``home``: the folder of the server that stoker runs, when the database is to be found there: ``target`` has no URL then.
    """

    folder: Path
    target: Target
    environment: str
    settings: WatchdogSettings
    home: Path | None = None


def load(path: Path | None, environ: Mapping[str, str]) -> WatchdogConfig:
    """Read the file as given, as STOKER_CONFIG says, or the nearest upwards. Raises WatchdogConfigError."""
    found = path or (Path(environ["STOKER_CONFIG"]) if environ.get("STOKER_CONFIG") else _nearest())
    if found is None:
        raise WatchdogConfigError("there is no config.toml here or above; give --config")
    document: dict[str, Any] = {}
    try:
        document = tomllib.loads(found.read_bytes().decode("utf-8-sig"))
    except OSError as error:
        raise WatchdogConfigError(f"{found} cannot be read: {error.strerror}") from None
    except ValueError:
        raise WatchdogConfigError(f"{found} is not TOML") from None
    folder = found.resolve().parent
    try:
        settings = WatchdogSettings.of(_table(document, "watchdog"))
        database = DatabaseSettings.of(_table(document, "database"))
    except SectionError as error:
        wrong = "; ".join(f"{'.'.join(map(str, where)) or 'the section'}: {what}" for where, what in error.wrongs)
        raise WatchdogConfigError(f"{found}: {wrong}") from None
    environment = environ.get("STOKER_DATABASE_ENVIRONMENT") or database.environment
    url = _url(database, folder, environ)
    home = folder / ".stoker" if url is None else None
    return WatchdogConfig(folder, _target(database, url or "", environ), environment, settings, home)


def _table(document: dict[str, Any], name: str) -> dict[str, Any]:
    section = document.get(name, {})
    if not isinstance(section, dict):
        raise SectionError([((name,), f"expected a table, [{name}], got {kind_of(section)}")])
    return section


def _nearest() -> Path | None:
    here = Path.cwd()
    return next((folder / "config.toml" for folder in (here, *here.parents) if (folder / "config.toml").is_file()), None)


def _target(database: DatabaseSettings, url: str, environ: Mapping[str, str]) -> Target:
    return Target(
        url,
        environ.get("STOKER_DATABASE_SCHEMA") or database.schema_name,
        connect_timeout=database.connect_timeout_seconds,
        statement_timeout=database.statement_timeout_seconds,
        lock_timeout=database.lock_timeout_seconds,
        prepared_statements=database.prepared_statements,
        pipeline=database.pipeline,
        session_options=database.session_options,
    )


def _url(database: DatabaseSettings, folder: Path, environ: Mapping[str, str]) -> str | None:
    """None: nothing names a database, so it is the one that stoker runs."""
    if environ.get("STOKER_DATABASE_URL"):
        return environ["STOKER_DATABASE_URL"]
    url_file = environ.get("STOKER_DATABASE_URL_FILE") or database.url_file
    if url_file:
        return (folder / os.path.expanduser(url_file)).read_text("utf-8").strip()  # noqa: PTH111 - a path may be "~/..."
    if database.url or environ.get("DATABASE_URL"):
        return database.url or environ["DATABASE_URL"]
    if any(environ.get(name) for name in ("PGHOST", "PGHOSTADDR", "PGSERVICE", "PGDATABASE")):
        return ""
    return None
