"""What commands share: the configuration, read once, and the database, opened and checked once."""

import gc
import json
import os
import sys
import unicodedata
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stoker.orchestrator.logs import configure, log

if TYPE_CHECKING:
    from stoker.orchestrator.config import Config
    from stoker.sql.database import Database
    from stoker.sql.target import Target

_STEERING = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


class UsageError(Exception):
    """The command line asks for something that cannot be."""


class Session:
    """One command's surroundings."""

    def __init__(self, path: str | None, *, needs_modes: bool = True) -> None:
        self._path = Path(path) if path else None
        self._needs_modes = needs_modes

    @property
    def path(self) -> Path | None:
        """The file that was asked for."""
        return self._path

    @cached_property
    def config(self) -> "Config":
        """The configuration; raises ConfigError."""
        from stoker.orchestrator.config import load

        config = load(self._path, os.environ, {})
        configure(config.log.level, config.log.format)
        for warning in config.warnings:
            log("configuration", "warning", text=warning)
        if not config.modes and self._needs_modes:
            log("configuration", "warning", text=f"{config.path} has no [modes.NAME]: nothing can be enqueued or run")
        return config

    @property
    def home(self) -> Path:
        """Where the embedded server lives, beside config.toml."""
        return self.config.folder / ".stoker"

    def url(self, *, start: bool = True) -> str:
        """The database's URL; an embedded server is started if it must be."""
        if not self.config.embedded:
            return self.config.database.url
        from stoker.sql import embedded

        return embedded.ensure(self.home) if start else embedded.url(self.home) or ""

    def target(self) -> "Target":
        """Where the database is and how to speak to it."""
        from stoker.sql.target import Target

        settings = self.config.database
        return Target(
            self.url(),
            settings.schema_name,
            connect_timeout=settings.connect_timeout_seconds,
            statement_timeout=settings.statement_timeout_seconds,
            lock_timeout=settings.lock_timeout_seconds,
            prepared_statements=settings.prepared_statements,
            pipeline=settings.pipeline,
            session_options=settings.session_options,
        )

    @cached_property
    def database(self) -> "Database":
        """The database, if it is the configured environment's; raises EnvironmentMismatchError."""
        from stoker.sql.environment import check_environment

        check_environment(self.connected, self.config.database.environment)
        return self.connected

    @cached_property
    def connected(self) -> "Database":
        """The database, with the schema that this stoker needs; an embedded one is migrated when it is new."""
        from stoker.sql.database import Database
        from stoker.sql.migrate import check_version, migrate, version

        target = self.target()
        database = Database(target, patience_seconds=self.config.database.connect_timeout_seconds)
        database.wait()
        database.patience_seconds = target.statement_timeout
        with database.raw() as connection:
            if self.config.embedded and version(connection, target.schema) == 0:
                migrate(target.url, target.schema)
            check_version(connection, target.schema)
        gc.freeze()
        gc.enable()
        return database


def say(text: str = "") -> None:
    """One line of result, for a terminal: what would steer it is replaced."""
    sys.stdout.write("".join(c if c in "\n\t" or _is_harmless(c) else "\ufffd" for c in text) + "\n")


def say_json(value: Any) -> None:
    """A result as JSON, for programs."""
    sys.stdout.write(json.dumps(value, default=str, ensure_ascii=False) + "\n")


def _is_harmless(character: str) -> bool:
    return (character.isascii() and character.isprintable()) or unicodedata.category(character) not in _STEERING


def say_table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Rows in aligned columns."""
    cells = [[_cell(value) for value in row] for row in rows]
    widths = [max(len(row[i]) for row in [list(head), *cells]) for i in range(len(head))]
    for row in [list(head), *cells]:
        say("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if hasattr(value, "strftime"):
        return str(value.strftime("%Y-%m-%d %H:%M:%S"))
    text = " ".join("".join(c if c.isprintable() else " " for c in str(value)).split())
    return text if len(text) <= 80 else text[:79] + "…"
