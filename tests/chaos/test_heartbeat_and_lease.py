"""A worker that renews is never robbed, however often somebody looks, and however little of the database it has."""

import json
import random
import uuid
from datetime import UTC, datetime, timedelta

from bench.virtual.clock import Clock, VirtualDatabase, install
from tests.end_to_end.project import Project

from stoker.hygiene.release import release_lost
from stoker.orchestrator.admission import Interlocks, Request, admit
from stoker.sql.database import Database
from stoker.sql.target import Target
from stoker.worker.settings import WorkerSettings

START = datetime(2027, 1, 1, tzinfo=UTC)
ELSEWHERE = {"boot_id": str(uuid.uuid4()), "host": "elsewhere", "pid": 7, "start_ticks": 7}
CONFIG = """
[limits]
max_pool = 1
task_cap = "none"
[worker]
lease = "1500ms"
renew_every = "500ms"
batch_time = "50ms"
[modes.little]
handler = "jobs:little"
"""
JOBS = """
def little(task):
    note(task, "start")
    time.sleep(0.015)
"""


def test_a_worker_that_renews_by_the_defaults_is_not_released_in_twenty_four_hours(database: str) -> None:
    """R41: looked at just before each renewal, one in three of which is lost on the way; lost for good, it is released."""
    settings, clock, dice = WorkerSettings.of({}), Clock(START), random.Random(1)
    install(database, START)
    own = VirtualDatabase(database, clock, 5.0)
    admit(own, Request(str(uuid.uuid4()), "main", None, Interlocks(None, 0.0, 4, None, None, None, "UTC"), 1e6, {}, None))
    name, lease, looks = str(uuid.uuid4()), settings.lease_seconds, 0
    own.run("register_worker", worker=name, fire=1, mode="m", ordinal=1, owner=json.dumps(ELSEWHERE), lease=lease)

    def released() -> list[str]:
        return [one.reason for one in release_lost(own, leases_judged=True, installation="i", reap_ghosts=False)]

    is_lost = False
    while clock.now < START + timedelta(hours=24):
        clock.now += timedelta(seconds=settings.renew_every_seconds)
        assert released() == []
        looks += 1
        is_lost = not is_lost and dice.random() < 0.5
        if not is_lost:
            assert own.run("renew_worker", worker=name, lease=lease) != []
    assert looks == 24 * 3600 / settings.renew_every_seconds
    clock.now += timedelta(seconds=2 * lease)
    assert released() == ["worker lease expired"]
    own.close()


def test_two_hundred_tasks_over_the_one_connection_of_a_worker_while_sweeps_look(project: Project) -> None:
    """R41: claims, settlements and renewals share it; every task is started once, nobody is released."""
    project.write(CONFIG, JOBS)
    ids = project.enqueue("little", *range(200))
    own, looks = Database(Target(project.url)), 0
    fire = project.start("fire")
    while fire.poll() is None:
        assert list(release_lost(own, leases_judged=True, installation="i", reap_ghosts=False)) == []
        looks += 1
    assert (fire.returncode, looks > 100) == (0, True)
    assert sorted(task for _, task, _, _ in project.ledger()) == ids
    assert project.query("select count(*) from stoker.attempts") == [(0,)]
    own.close()
