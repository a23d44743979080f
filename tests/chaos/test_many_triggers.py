"""Several triggers come at the same due time: one fires, the others say in one line that there is nothing to do."""

import json
import subprocess

import pytest
from tests.end_to_end.project import COMMAND, Project

TRIGGERS = 5
CONFIG = """
[limits]
fires_per_day = "none"
[modes.quick]
handler = "jobs:quick"
[[schedules]]
name = "seldom"
every = "10d"
"""
FAR = "interval '90000 d'"  # first out of the way of each other
EARLIER = (
    "update stoker.schedules set since = since - interval '10 d' returning 1",
    f"update stoker.slots set due_at = due_at - {FAR}, last_due_at = last_due_at - {FAR} returning 1",
    f"update stoker.slots set due_at = due_at + {FAR} - interval '10 d', last_due_at = last_due_at + {FAR} - interval '10 d'"
    " returning 1",
)


@pytest.mark.parametrize("slots", [5, pytest.param(500, marks=pytest.mark.soak)])
def test_of_five_processes_at_each_due_time_one_fires_and_four_say_one_line(project: Project, slots: int) -> None:
    """R08: as many fires and notes as slots; who loses exits 0 with one line."""
    project.write(CONFIG)
    project.run("fire", "--due")
    quiet = 0
    for _ in range(slots):
        for statement in EARLIER:
            project.query(statement)
        triggers = [
            subprocess.Popen(
                [*COMMAND, "fire", "--due"],
                cwd=project.folder,
                env=project.environment(),
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for _ in range(TRIGGERS)
        ]
        said = [trigger.communicate(timeout=60) for trigger in triggers]
        assert [trigger.returncode for trigger in triggers] == [0] * TRIGGERS, said
        losers = [errors.splitlines() for output, errors in said if not output]
        assert len(losers) == TRIGGERS - 1
        for lines in losers:
            (line,) = lines
            assert (json.loads(line)["event"], json.loads(line)["level"]) == ("nothing is due", "info")
            quiet += 1
    assert quiet == slots * (TRIGGERS - 1)
    assert project.query("select state, count(*), count(distinct fire) from stoker.slots group by state") == [
        ("ran", slots, slots)
    ]
    assert project.query("select (select count(*) from stoker.fires), (select count(*) from stoker.notes)") == [(slots, slots)]
