"""What every command that goes by config.toml begins with: the file is read, and what it names is made ready."""

import argparse
import os
import sys
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from stoker.sql.database import Database, DatabaseUnreachableError
from stoker.sql.environment import check_environment
from stoker.watchdog.blindness import Blindness
from stoker.watchdog.channels import Pager
from stoker.watchdog.config import WatchdogConfig, WatchdogConfigError, load

WRONG, USAGE, CANNOT_CHECK = 1, 2, 75
_PATIENCE_SECONDS = 5.0


@dataclass
class Opened:
    """The configuration, and the database, channels and state file that it names."""

    config: WatchdogConfig
    state: Path

    @cached_property
    def database(self) -> Database:
        """Not connected yet."""
        target = self.config.target
        bound = target.statement_timeout + _PATIENCE_SECONDS
        return Database(target, application="stoker watchdog", patience_seconds=_PATIENCE_SECONDS, answer_seconds=bound)

    def locate(self) -> None:
        """Find the server that stoker runs, where that is the database: it may be up by now, or have moved.

        Raises DatabaseUnreachableError.
        """
        if self.config.home is None:
            return
        from stoker.sql import embedded

        target = self.database.target
        try:
            url = embedded.url(self.config.home)
        except embedded.EmbeddedServerError as error:
            raise DatabaseUnreachableError(str(error)) from None
        if not url and not target.url:
            raise DatabaseUnreachableError(f"no server runs in {self.config.home}, and [database] names no url")
        if url and url != target.url:
            self.database.close()
            self.database.target = replace(target, url=url)

    def check(self) -> None:
        """Before anything is written. Raises DatabaseUnreachableError, StatementError, EnvironmentMismatchError."""
        self.locate()
        check_environment(self.database, self.config.environment, first=False)

    @cached_property
    def pager(self) -> Pager:
        """The channels."""
        return Pager(self.config.settings, self.config.folder)

    @cached_property
    def blindness(self) -> Blindness:
        """What is kept while the database is away."""
        return Blindness(self.state, self.config.settings, self.pager)


def opened(options: argparse.Namespace) -> Opened:
    """By the command line's --config and --state; a file that cannot be used ends the process, with what is wrong in it."""
    try:
        config = load(options.config, os.environ)
    except (WatchdogConfigError, OSError, ValueError) as error:
        sys.stderr.write(f"stoker-watchdog: {error}\n")
        sys.exit(USAGE)
    return Opened(config, options.state or config.folder / ".stoker" / "watchdog.json")
