"""``stoker-watchdog``: stays, looks, and tells what did not happen; with ``--once`` for cron.

    stoker-watchdog                             by [watchdog] of config.toml, until it is ended
    stoker-watchdog --once                      one look, its pages included
    stoker-watchdog --test-page                 one marked page by every channel
    stoker-watchdog incidents                   what is wrong, and who has taken it
    stoker-watchdog ack CAUSE --why TEXT        take it: it is not told again until it is over
    stoker-watchdog drill                       withhold a slot on purpose, and see whether everybody is told
    stoker-watchdog --once --expect 8h          no file, no page: says whether a fire reached its note in time

Exit codes: 0 all is well; 1 something is wrong, or a page did not go out; 2 usage; 75 cannot check, which is neither.
"""

import argparse
import os
import signal
import sys
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

from stoker.sql.database import Database, DatabaseUnreachableError, StatementError
from stoker.sql.environment import EnvironmentMismatchError
from stoker.sql.target import Target
from stoker.sql.units import format_duration, parse_duration
from stoker.watchdog.opened import CANNOT_CHECK, USAGE, WRONG, Opened, opened

if TYPE_CHECKING:
    from stoker.watchdog.watch import Watch

_EXAMPLE = 'example, for cron: stoker-watchdog --once --expect 8h --url "$(stoker db url)" || mail -s dark ops@example.org'


def main() -> None:
    """Look, say, exit; or stay."""
    options = _options()
    if options.command is not None:
        options.command(options)
    elif options.expect is not None:
        _look_at_notes(options)
    elif options.test_page:
        _send_a_test(opened(options))
    else:
        _watch(options)


def _watch(options: argparse.Namespace) -> None:
    """By the configuration: incidents and pages."""
    from stoker.watchdog.watch import Watch

    own = opened(options)
    facts = {"environment": own.config.environment, "by_cron": options.once, "locate": own.locate}
    watch = Watch(own.database, own.config.settings, own.pager, own.state, **facts)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        _look_on(watch, options, own.config.settings.every_seconds)
    except EnvironmentMismatchError as error:
        sys.stderr.write(f"stoker-watchdog: {error}\n")
        sys.exit(USAGE)
    finally:
        if not options.once:
            watch.say_farewell()


def _send_a_test(own: Opened) -> None:
    from stoker.watchdog.pages import TRIGGER, Page

    words = f"This is a test of stoker-watchdog on {os.uname().nodename}; nothing is wrong."
    page = Page(TRIGGER, "test", words, f"{own.config.folder}", str(uuid.uuid4()))
    went = {name: own.pager.tell(name, page) for name in own.pager.channels}
    for name, refused in went.items():
        sys.stderr.write(f"stoker-watchdog: {name}: {refused}\n" if refused else "")
    if told := [name for name, refused in went.items() if refused is None]:
        sys.stdout.write(f"a test page went out by {', '.join(told)}\n")
    if not went:
        sys.stderr.write("stoker-watchdog: no channel is configured in [watchdog]\n")
    sys.exit(0 if went and len(told) == len(went) else WRONG)


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
        if look.unkept:
            sys.stderr.write(f"stoker-watchdog: {look.unkept}: an outage is told by a process that stays, or not at all\n")
        if options.once and look.is_well:
            sys.stdout.write("all is well\n")
        if options.once:
            sys.exit(CANNOT_CHECK if look.findings is None else 0 if look.is_well else WRONG)
        time.sleep(every_seconds)


def _look_at_notes(options: argparse.Namespace) -> None:
    target = Target(options.url, options.schema, statement_timeout=10.0)
    database = Database(target, application="stoker watchdog", patience_seconds=5, answer_seconds=15.0)
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
    _add_files(parser, None)
    parser.add_argument("--once", action="store_true", help="look once (for cron)")
    parser.add_argument("--test-page", action="store_true", help="send a marked page by every channel")
    parser.add_argument("--expect", type=_duration, help='only look how often a fire reached its note, such as "8h"')
    parser.add_argument("--grace", type=_duration, default=600.0, help='with --expect: how late it may be (default: "10m")')
    parser.add_argument("--lane", default="main", help="with --expect: the lane (default: main)")
    parser.add_argument(
        "--schema", default=os.environ.get("STOKER_DATABASE_SCHEMA", "stoker"), help="with --expect: the schema"
    )
    url = os.environ.get("STOKER_DATABASE_URL") or os.environ.get("DATABASE_URL", "")
    parser.add_argument("--url", default=url, help="with --expect: the database; else from the environment")
    _add_commands(parser)
    options = parser.parse_args()
    if options.expect is not None and not options.once:
        parser.error("--expect needs --once")
    return options


def _add_files(parser: argparse.ArgumentParser, default: object) -> None:
    """Before a command and after it, as people write them."""
    state = "what is kept while the database is away; default: .stoker/watchdog.json"
    parser.add_argument("--config", type=Path, default=default, help="config.toml to use; default: the nearest one upwards")
    parser.add_argument("--state", type=Path, default=default, help=state)


def _add_commands(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(command=None)
    commands = parser.add_subparsers(title="commands", metavar="")
    shown = commands.add_parser("incidents", help="what is wrong, and who has taken it")
    shown.add_argument("--all", action="store_true", help="also what is over")
    shown.add_argument("--json", action="store_true", help="JSON, for programs")
    shown.set_defaults(command=_incidents)
    acked = commands.add_parser("ack", help="take an incident: it is not told again until it is over")
    acked.add_argument("cause", help='as "stoker-watchdog incidents" shows it, such as "slot day"')
    acked.add_argument("--why", required=True, help="what is being done about it")
    acked.add_argument("--who", help="who takes it; default: the user of this system")
    acked.set_defaults(command=_ack)
    drilled = commands.add_parser("drill", help="withhold a slot on purpose, and see whether everybody is told")
    drilled.set_defaults(command=_drill)
    for one in (shown, acked, drilled):
        _add_files(one, argparse.SUPPRESS)


def _incidents(options: argparse.Namespace) -> None:
    from stoker.watchdog.cli_incidents import show

    show(options)


def _ack(options: argparse.Namespace) -> None:
    from stoker.watchdog.cli_incidents import ack

    ack(options)


def _drill(options: argparse.Namespace) -> None:
    from stoker.watchdog.cli_drill import run

    run(options)


def _duration(text: str) -> float:
    try:
        return parse_duration(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


if __name__ == "__main__":
    main()
