"""``stoker-watchdog incidents`` and ``stoker-watchdog ack``."""

import argparse
import getpass
import json
import os
import sys
import time

from stoker.sql.database import DatabaseUnreachableError, StatementError
from stoker.sql.environment import EnvironmentMismatchError
from stoker.watchdog.blindness import CAUSE
from stoker.watchdog.delivery import Deliverer
from stoker.watchdog.incidents import acknowledge, incidents
from stoker.watchdog.opened import CANNOT_CHECK, USAGE, WRONG, opened


def show(options: argparse.Namespace) -> None:
    """What is wrong. Exit code 1 when something is, 75 when the database cannot tell."""
    own = opened(options)
    blind = own.blindness.shown()
    try:
        own.locate()
        found = incidents(own.database, all_of_them=options.all)
    except (DatabaseUnreachableError, StatementError) as error:
        sys.stderr.write(f"stoker-watchdog: cannot check: {error}\n")
        sys.exit(CANNOT_CHECK)
    if options.json:
        sys.stdout.write(json.dumps([one.as_json() for one in found], indent=2) + "\n")
    else:
        lines = [line for one in found for line in one.lines()]
        if blind is not None:
            lines.append(f"{CAUSE}: the watchdog here could not check at its last look: {blind.get('why', '')}")
        sys.stdout.write("\n".join(lines or ["nothing is wrong" if not options.all else "nothing ever was wrong"]) + "\n")
    sys.exit(WRONG if blind is not None or any(one.resolved_at is None for one in found) else 0)


def ack(options: argparse.Namespace) -> None:
    """Take an incident: it is not told again, nor escalated, until it is over."""
    if not options.why.strip() or (options.who is not None and not options.who.strip()):
        sys.stderr.write("stoker-watchdog: --why and --who need words: whoever looks next will read them\n")
        sys.exit(USAGE)
    own, who = opened(options), options.who or _user()
    if options.cause == CAUSE:
        if own.blindness.acknowledge(who, options.why, time.time()):
            sys.stdout.write(f"{CAUSE} is acknowledged by {who}, for the watchdog that keeps {own.state}\n")
            return
        if own.blindness.trouble:
            sys.stderr.write(f"stoker-watchdog: {own.blindness.trouble}\n")
            sys.exit(WRONG)
        sys.stderr.write(f"stoker-watchdog: {own.state} knows of no database that is away, or somebody has taken it\n")
        sys.exit(WRONG)
    try:
        own.check()
        incident = acknowledge(own.database, options.cause, who, options.why)
        if incident is not None:
            ((installation, *_),) = own.database.run("installation")
            done = Deliverer(own.database, own.pager).deliver(str(installation), incident)
            for failure in done.failures:
                sys.stderr.write(f"stoker-watchdog: not told yet, it is tried again at the next look: {failure}\n")
            sys.stdout.write(f"{options.cause} is acknowledged by {who}; it is not told again until it is over\n")
            return
        known = incidents(own.database, all_of_them=False)
    except EnvironmentMismatchError as error:
        sys.stderr.write(f"stoker-watchdog: {error}\n")
        sys.exit(USAGE)
    except (DatabaseUnreachableError, StatementError) as error:
        sys.stderr.write(f"stoker-watchdog: cannot check: {error}\n")
        sys.exit(CANNOT_CHECK)
    for one in known:
        if one.cause == options.cause:
            sys.stderr.write(f"stoker-watchdog: {one.acked_by} has acknowledged it already: {one.ack_reason}\n")
            sys.exit(WRONG)
    causes = ", ".join(f'"{one.cause}"' for one in known) or "nothing"
    sys.stderr.write(f'stoker-watchdog: there is no open incident "{options.cause}"; open: {causes}\n')
    sys.exit(WRONG)


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return f"uid {os.getuid()}"
