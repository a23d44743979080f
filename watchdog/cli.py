"""``stoker-watchdog``: stays, looks, and tells what did not happen; with ``--once`` for cron.

    stoker-watchdog                             by [watchdog] of config.toml, until it is ended
    stoker-watchdog --once                      one look, its pages included
    stoker-watchdog --test-page                 one marked page by every channel
    stoker-watchdog --once --expect 8h          no file, no page: says whether a fire reached its note in time

Exit codes: 0 all is well; 1 something is wrong, or a page did not go out; 2 usage; 75 cannot check, which is neither.
"""

import argparse
import os
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from stoker.sql.database import Database, DatabaseUnreachableError, StatementError
from stoker.sql.target import Target
from stoker.sql.units import format_duration, parse_duration

if TYPE_CHECKING:
    from stoker.watchdog.watch import Watch

WRONG, USAGE, CANNOT_CHECK = 1, 2, 75
_EXAMPLE = 'example, for cron: stoker-watchdog --once --expect 8h --url "$(stoker db url)" || mail -s dark ops@example.org'


def main() -> None:
    """Look, say, exit; or stay."""
    options = _options()
    if options.expect is not None:
        _look_at_notes(options)
        return
    _watch(options)


def _watch(options: argparse.Namespace) -> None:
    """By the configuration: incidents and pages."""
    from stoker.watchdog.config import WatchdogConfigError, load
    from stoker.watchdog.pages import TRIGGER, Page, PageError, Pager
    from stoker.watchdog.watch import Watch

    try:
        config = load(options.config, os.environ)
    except (WatchdogConfigError, OSError, ValueError) as error:
        sys.stderr.write(f"stoker-watchdog: {error}\n")
        sys.exit(USAGE)
    pager = Pager(config.settings, config.folder)
    if options.test_page:
        try:
            words = f"This is a test of stoker-watchdog on {os.uname().nodename}; nothing is wrong."
            pager.send(Page(TRIGGER, "test", words, f"{config.folder}"))
        except PageError as error:
            sys.stderr.write(f"stoker-watchdog: {error}\n")
            sys.exit(WRONG)
        sys.stdout.write(f"a test page went out by {', '.join(pager.channels)}\n")
        return
    database = Database(Target(config.url, config.schema), application="stoker watchdog", patience_seconds=5)
    state = options.state or config.folder / ".stoker" / "watchdog.json"
    watch = Watch(database, config.settings, pager, state, environment=config.environment, by_cron=options.once)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        _look_on(watch, options, config.settings.every_seconds)
    finally:
        if not options.once:
            watch.say_farewell()


def _look_on(watch: "Watch", options: argparse.Namespace, every_seconds: float) -> None:
    while True:
        look = watch.look()
        for failure in look.failures:
            sys.stderr.write(f"stoker-watchdog: a page did not go out: {failure}\n")
        if look.findings is None:
            sys.stderr.write(f"stoker-watchdog: cannot check: {look.why}\n")
        for finding in look.findings or ():
            sys.stdout.write(finding.words + "\n")
        sys.stdout.flush()
        if options.once and look.findings == [] and not look.failures:
            sys.stdout.write("all is well\n")
        if options.once:
            sys.exit(CANNOT_CHECK if look.findings is None else WRONG if look.findings or look.failures else 0)
        time.sleep(every_seconds)


def _look_at_notes(options: argparse.Namespace) -> None:
    database = Database(Target(options.url, options.schema), application="stoker watchdog", patience_seconds=5)
    try:
        ((age,),) = database.run("last_note_age", lane=options.lane)
    except (DatabaseUnreachableError, StatementError) as error:
        sys.stderr.write(f"stoker-watchdog: cannot check: {error}\n")
        sys.exit(CANNOT_CHECK)
    limit = options.expect + options.grace
    if age is not None and age <= limit:
        sys.stdout.write(f"in time: the last fire of lane {options.lane} reached its note {format_duration(round(age))} ago\n")
        return
    since = "there is none" if age is None else f"the last was {format_duration(round(age))} ago"
    sys.stdout.write(
        f"Orchestrator did not fire. The fleet is dark. Lane {options.lane}: a fire is expected every"
        f" {format_duration(options.expect)} (+{format_duration(options.grace)}); {since}.\n"
    )
    sys.exit(WRONG)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        "stoker-watchdog", description="Tells when an expected fire did not happen.", epilog=_EXAMPLE
    )
    parser.add_argument("--config", type=Path, help="config.toml to use; default: the nearest one upwards")
    parser.add_argument("--once", action="store_true", help="look once (for cron)")
    parser.add_argument("--test-page", action="store_true", help="send a marked page by every channel")
    parser.add_argument("--state", type=Path, help="what is kept while the database is away; default: .stoker/watchdog.json")
    parser.add_argument("--expect", type=_duration, help='only look how often a fire reached its note, such as "8h"')
    parser.add_argument("--grace", type=_duration, default=600.0, help='with --expect: how late it may be (default: "10m")')
    parser.add_argument("--lane", default="main", help="with --expect: the lane (default: main)")
    parser.add_argument(
        "--schema", default=os.environ.get("STOKER_DATABASE_SCHEMA", "stoker"), help="with --expect: the schema"
    )
    url = os.environ.get("STOKER_DATABASE_URL") or os.environ.get("DATABASE_URL", "")
    parser.add_argument("--url", default=url, help="with --expect: the database; else from the environment")
    options = parser.parse_args()
    if options.expect is not None and not options.once:
        parser.error("--expect needs --once")
    return options


def _duration(text: str) -> float:
    try:
        return parse_duration(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


if __name__ == "__main__":
    main()
