"""Who counts as lost: by true identity, or by a lease that may be judged. Never by a bare pid."""

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import psycopg
import pytest
from tests.waiting import wait_until

from stoker.hygiene import clock
from stoker.hygiene.clock import leases_are_judged
from stoker.hygiene.identity import mine, of, proven_gone
from stoker.hygiene.release import identity, release_lost
from stoker.orchestrator.admission import Interlocks, Request, admit
from stoker.sql.database import Database
from stoker.sql.enqueue import Door, NewTask, enqueue_many
from stoker.sql.target import Target

CLAIM: dict[str, Any] = {
    "mode": "m", "version": 1, "mark_priority": -(2**31) - 1, "mark_lo": -1, "locks": 9, "batch": 1, "chunk": 1, "lease": 60.0,
    "side_effect": False, "max_attempts": 3, "ahead": False, "dead_after": 60.0,
}  # fmt: skip


@pytest.fixture
def stoker(database: str) -> Iterator[Database]:
    """The database, with an open fire 1 whose owner is this process."""
    made = Database(Target(database))
    limits = Interlocks(None, 0.0, 4, None, None, None, "UTC")
    admit(made, Request(str(uuid.uuid4()), "main", None, limits, 60.0, asdict(mine()), None))
    yield made
    made.close()


def worker(stoker: Database, owner: dict[str, Any], lease: float = 60.0) -> str:
    """A worker that holds one task."""
    name = str(uuid.uuid4())
    with stoker.raw() as connection:
        enqueue_many(connection, [NewTask("m")], Door())
    stoker.run("register_worker", worker=name, fire=1, mode="m", ordinal=1, owner=json.dumps(owner), lease=lease)
    stoker.run("claim_batch", worker=name, token=str(uuid.uuid4()), **{**CLAIM, "lease": lease})
    return name


def released(stoker: Database, *, judged: bool = True) -> list[tuple[str, str]]:
    ((installation, *_),) = stoker.run("installation")
    return [(one.worker, one.reason) for one in release_lost(stoker, leases_judged=judged, installation=installation)]


@pytest.mark.parametrize(
    "forged",
    [
        {"pid": 1, "start_ticks": 1},
        {"start_ticks": 1},
        {"pid": "stranger", "start_ticks": 1},
        {"pid": 2**22 + 1},
    ],
    ids=["pid 1", "our own pid", "a living stranger's pid", "no such pid"],
)
def test_a_recycled_pid_is_proven_gone_and_the_stranger_gets_no_signal(stoker: Database, forged: dict[str, Any]) -> None:
    """R20, T16: the worker's tasks are freed at once; whoever has its pid now lives on."""
    stranger = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        forged = {**forged, "pid": stranger.pid} if forged.get("pid") == "stranger" else forged
        lost = worker(stoker, {**asdict(mine()), **forged})
        assert released(stoker) == [(lost, "worker lost")]
        assert stranger.poll() is None
    finally:
        stranger.communicate(b"\n")
    assert stranger.returncode == 0


@pytest.mark.parametrize(
    "elsewhere",
    [{"host": "other", "boot_id": "0" * 36}, {"boot_id": "1" * 36}, {"pid_namespace": "pid:[1]"}, {"boot_id": ""}, None],
    ids=["another host", "another boot", "another pid namespace", "no boot id", "garbage"],
)
def test_what_cannot_be_told_is_left_to_the_lease(stoker: Database, elsewhere: dict[str, Any] | None) -> None:
    """R20: no proof, no release, until the lease is over."""
    owner = {"words": "none"} if elsewhere is None else {**asdict(mine()), "pid": 2**22 + 1, **elsewhere}
    living = worker(stoker, owner)
    assert released(stoker) == []
    with psycopg.connect(stoker.target.url, autocommit=True) as connection:
        connection.execute("update stoker.workers set lease_until = now() - interval '1 s'")
    assert released(stoker, judged=False) == []
    assert released(stoker) == [(living, "worker lease expired")]
    assert released(stoker) == []


def test_a_living_twin_is_not_robbed(stoker: Database) -> None:
    """R20: the real process, with its lease, keeps what it holds."""
    worker(stoker, asdict(mine()))
    assert released(stoker) == []
    assert stoker.run("list_living", fire=1) != []


def test_leases_are_not_judged_after_the_clock_leapt(stoker: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """P12: the database's clock against the time since boot; a leap holds judgement for one lease."""
    with psycopg.connect(stoker.target.url, autocommit=True) as connection:
        assert not leases_are_judged(stoker, 10**6), "the server started less than a lease ago"
        assert leases_are_judged(stoker, 0.01)
        real = clock._since_boot()
        monkeypatch.setattr(clock, "_since_boot", lambda: real - 600)
        assert not leases_are_judged(stoker, 0.5)
        connection.execute("update stoker.installation set leapt_at = leapt_at - interval '1 s'")
        wait_until(lambda: leases_are_judged(stoker, 0.5), 5, "not judged a lease after the leap")


def test_identity_survives_its_way_through_the_database() -> None:
    """What is written is what is read; garbage reads as nobody, who is never proven gone."""
    assert identity(json.loads(json.dumps(asdict(mine())))) == mine()
    assert not proven_gone(identity({"pid": "x", "boot_id": 3}))
    assert of(os.getpid()) == mine()
