"""The trigger's host sleeps over a slot, and the watchdog itself is dead: somebody hears of both."""

import os
import re
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from tests.chaos.told import COMMAND, WATCHDOG, causes, told
from tests.end_to_end.project import Project
from tests.waiting import wait_until

CONFIG = f"""
[limits]
fires_per_day = "none"
[watchdog]
every = "500ms"
quiet = "1s"
{COMMAND}
[modes.quick]
handler = "jobs:quick"
"""
SCHEDULE = """
[[schedules]]
name = "often"
every = "2s"
grace = "3s"
"""


@contextmanager
def switch() -> Iterator[tuple[str, list[str]]]:
    """A dead man's switch elsewhere: where it is, and what it was told."""
    pings: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            pings.append(self.path)
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Nothing."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/switch", pings
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("missed", ["latest", "skip"])
def test_a_trigger_that_sleeps_over_its_slots_is_told_of_in_time_and_makes_good_one_or_none(
    project: Project, missed: str
) -> None:
    """R75, R04: the alarm comes while it sleeps; awake, one late fire or none by the policy; the rest is missed."""
    project.write(f'{CONFIG}{SCHEDULE}missed = "{missed}"\n')
    standing, dog = project.start("run"), project.start(command=WATCHDOG)
    wait_until(lambda: project.query("select from stoker.slots where state = 'ran'") != [], 30, "a slot")
    os.kill(standing.pid, signal.SIGSTOP)
    wait_until(lambda: told(project) != [], 15, "the alarm")
    ((decided, now),) = project.query("select max(last_due_at), now() from stoker.slots")
    assert (now - decided).total_seconds() < 2 + 3 + 3, "due, grace, and what it takes to look and to tell"
    os.kill(standing.pid, signal.SIGCONT)
    wait_until(lambda: project.query("select from stoker.incidents where resolve_paged") != [], 20, "the resolution")
    after = "select state from stoker.slots where last_due_at > %s and state = 'ran'"
    wait_until(lambda: len(project.query(after, decided)) >= 2, 20, "two slots that ran")
    slots = project.query("select state, due_at, last_due_at from stoker.slots where due_at > %s order by due_at", decided)
    assert slots[0][0] == "missed"
    assert slots[1][0] == "ran"
    for process in (standing, dog):
        process.terminate()
        process.wait(timeout=20)
    assert causes(project) == [("trigger", "slot often"), ("resolve", "slot often")]


def test_a_watchdog_that_is_dead_for_three_days_is_seen_by_its_switch_the_status_and_the_note(project: Project) -> None:
    """R77: the pings outside stop with it; status and note say for how long, and that it is too long."""
    with switch() as (url, pings):
        project.write(CONFIG.replace("[watchdog]\n", f'[watchdog]\nping = "{url}"\n'))
        dog = project.start(command=WATCHDOG)
        wait_until(lambda: pings.count("/switch") >= 2, 20, "pings")
        assert "ago, which" not in project.run("status").stdout
        dog.kill()
        dog.wait(timeout=10)
        before = list(pings)
        project.query("update stoker.heartbeats set at = at - interval '3 days' returning 1")
        project.enqueue("quick", 1)
        fired = project.run("fire")
        assert pings == before
    said = re.search(r"The watchdog looked (3d\w*) before, which is too long: does stoker-watchdog run\?", fired.stdout)
    assert said is not None, fired.stdout
    assert project.facts()["watchdog"]["age"] >= 3 * 86_400
    shown = project.run("status").stdout
    assert re.search(r"the watchdog looked 3d\w* ago, which is too long: does stoker-watchdog run\?", shown), shown
    assert project.json("status")["watchdog_age"] >= 3 * 86_400
