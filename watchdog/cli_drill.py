"""``stoker-watchdog drill``."""

import argparse
import signal
import sys
import time
from contextlib import closing

from stoker.sql.database import DatabaseUnreachableError, StatementError
from stoker.sql.environment import EnvironmentMismatchError
from stoker.sql.units import format_duration
from stoker.watchdog.drill import DrillError, drill
from stoker.watchdog.opened import CANNOT_CHECK, USAGE, WRONG, opened


def run(options: argparse.Namespace) -> None:
    """Withhold a slot and see whether somebody is told. Exit code 0: every channel took both pages; 1; 2; 75 cannot check."""
    own, failures = opened(options), 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    began = time.monotonic()
    try:
        own.check()
        with closing(drill(own.database, own.config.settings, own.pager)) as steps:  # type: ignore[type-var]
            for step in steps:
                sys.stdout.write(step.words + "\n")
                sys.stdout.flush()
                sys.stderr.write("".join(f"stoker-watchdog: it failed by {failure}\n" for failure in step.failures))
                failures += len(step.failures)
        rows = own.database.run("watchdog_age")
    except DrillError as error:
        sys.stderr.write(f"stoker-watchdog: {error}\n")
        sys.exit(WRONG)
    except EnvironmentMismatchError as error:
        sys.stderr.write(f"stoker-watchdog: {error}\n")
        sys.exit(USAGE)
    except (DatabaseUnreachableError, StatementError) as error:
        sys.stderr.write(f"stoker-watchdog: cannot check: {error}\n")
        sys.exit(CANNOT_CHECK)
    sys.stdout.write(f"the drill took {time.monotonic() - began:.1f} s, and left nothing behind\n")
    if not rows or rows[0][0] > rows[0][1]:
        since = f"has looked for {format_duration(round(rows[0][0]))}" if rows else "ever looked"
        sys.stderr.write(f"stoker-watchdog: this process can page, but no watchdog {since}: start stoker-watchdog\n")
    sys.exit(WRONG if failures else 0)
