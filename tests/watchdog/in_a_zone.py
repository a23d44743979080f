"""A scheduler, or a watchdog, as a process of its own in whatever zone TZ says; told the time on standard input.

``python -m tests.watchdog.in_a_zone watchdog URL FOLDER SCHEDULE``: a line is an instant, the answer is a line of JSON.
"""

import json
import sys
import time
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from bench.virtual.clock import Clock, VirtualDatabase

from stoker.hygiene.close import NORMAL, Seen, Terms, close_fire
from stoker.hygiene.restored import installation_of
from stoker.orchestrator.admission import Interlocks, Request, admit
from stoker.orchestrator.settings import ScheduleSettings
from stoker.watchdog.channels import Pager
from stoker.watchdog.settings import WatchdogSettings
from stoker.watchdog.watch import Watch


def watchdog(url: str, folder: Path, clock: Clock, _: ScheduleSettings) -> Callable[[], object]:
    """Looks; says what is wrong."""
    settings = WatchdogSettings.of({"command": [sys.executable, "-c", "pass"]})
    watch = Watch(
        VirtualDatabase(url, clock, 5.0), settings, Pager(settings, folder), folder / "watchdog.json", clock=clock.seconds
    )
    return lambda: [finding.words for finding in watch.look().findings or []]


def scheduler(url: str, _: Path, clock: Clock, schedule: ScheduleSettings) -> Callable[[], object]:
    """Fires what is due; says which due time it was."""
    database = VirtualDatabase(url, clock, 5.0)
    locks = Interlocks(None, 0.0, 4, 25, 900.0, None, "UTC")
    terms = Terms(NORMAL, installation_of(database), reap_ghosts=False)

    def fire() -> object:
        found = admit(database, Request(str(uuid.uuid4()), "main", None, locks, 1e6, {}, None, schedule=schedule))
        if found.fire:
            close_fire(database, Seen(found.fire), terms)
        return found.due_at and found.due_at.astimezone(UTC).isoformat()

    return fire


def say(answer: object) -> None:
    """One line."""
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


def main() -> None:
    """Answer until standard input ends."""
    role, url, folder, keys = sys.argv[1:]
    clock = Clock(datetime(2027, 1, 1, tzinfo=UTC))
    act = {"watchdog": watchdog, "scheduler": scheduler}[role](url, Path(folder), clock, ScheduleSettings.of(json.loads(keys)))
    say(time.strftime("%z"))
    for line in sys.stdin:
        clock.now = datetime.fromisoformat(line.strip())
        say(act())


if __name__ == "__main__":
    main()
