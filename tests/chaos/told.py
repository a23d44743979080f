"""A program that the watchdog tells, which keeps what it is told in a file of the project."""

import json
import sys
from typing import Any

from tests.end_to_end.project import Project

WATCHDOG = (sys.executable, "-P", "-m", "stoker.watchdog.cli")
_KEEP = "import sys; open('pages', 'a').write(sys.stdin.read() + chr(10))"
COMMAND = f'command = ["{sys.executable}", "-c", "{_KEEP}"]'


def told(project: Project) -> list[dict[str, Any]]:
    """The pages that were taken so far, whole ones only."""
    file = project.folder / "pages"
    lines = file.read_text().splitlines(keepends=True) if file.exists() else []
    return [json.loads(line) for line in lines if line.endswith("\n")]


def causes(project: Project) -> list[tuple[str, str]]:
    """What each page did, and of which cause."""
    return [(page["action"], page["cause"]) for page in told(project)]
