"""``stoker-watchdog --once --expect 8h``: says whether a fire reached its note in time; for cron, with only psycopg.

Exit codes: 0 in time; 1 no fire in time; 2 usage; 75 cannot check, which is neither.
"""

import argparse
import os
import sys

from stoker.sql.database import Database, DatabaseUnreachableError, StatementError
from stoker.sql.target import Target
from stoker.sql.units import format_duration, parse_duration

LATE, USAGE, CANNOT_CHECK = 1, 2, 75
_EXAMPLE = 'example, for cron: stoker-watchdog --once --expect 8h --url "$(stoker db url)" || mail -s dark ops@example.org'


def main() -> None:
    """Look once, say one line, exit."""
    options = _options()
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
    sys.exit(LATE)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        "stoker-watchdog", description="Says when an expected fire did not happen.", epilog=_EXAMPLE
    )
    parser.add_argument("--once", action="store_true", required=True, help="look once (for cron)")
    parser.add_argument("--expect", type=_duration, required=True, help='how often a fire is expected, such as "8h"')
    parser.add_argument("--grace", type=_duration, default=600.0, help='how late it may be (default: "10m")')
    parser.add_argument("--lane", default="main", help="the lane (default: main)")
    parser.add_argument("--schema", default=os.environ.get("STOKER_DATABASE_SCHEMA", "stoker"), help="the schema")
    url = os.environ.get("STOKER_DATABASE_URL") or os.environ.get("DATABASE_URL", "")
    parser.add_argument("--url", default=url, help="the database; default: STOKER_DATABASE_URL, DATABASE_URL, PG*")
    return parser.parse_args()


def _duration(text: str) -> float:
    try:
        return parse_duration(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


if __name__ == "__main__":
    main()
