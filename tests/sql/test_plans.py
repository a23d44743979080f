"""No statement of a worker reads more than what it takes, on a million ready rows, whatever the statistics say.

``HOT`` lists them: the parameters, and how many rows and blocks one execution may touch at most. To add a statement, or
to follow one that has changed, change its line.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from tests.postgres import Cluster
from tests.sql.factory import claiming, ended, open_fire, orders, register, settling
from tests.sql.plans import FIRST_LATER, FIRST_READY, HELD, NOBODY, READY, SITUATIONS, Plan, build, explain

from stoker.sql.database import Database
from stoker.sql.target import Target
from stoker.worker.desk import open_desk

Parameters = dict[str, Any]
BATCH = 100
# A row claimed or settled moves in a table with two indexes, and its task is found by its key.
A_ROW = 40
# A session's first statement reads the catalogue too.
A_START = 800


@dataclass(frozen=True, slots=True)
class Scene:
    """A large queue, and what a worker in it knows: itself, and another's claim of a hundred tasks."""

    database: Database
    fire: int
    worker: str
    other: str
    token: str
    held: list[int]


@pytest.fixture(scope="module")
def urls(_cluster: Cluster, _template: str) -> Iterator[dict[str, str]]:
    _cluster.start()
    names = build(_cluster, _template)
    yield {situation: _cluster.url(name) for situation, name in names.items()}
    for name in names.values():
        _cluster.drop(name)


@pytest.fixture(scope="module", params=SITUATIONS)
def url(request: pytest.FixtureRequest, urls: dict[str, str]) -> str:
    return urls[request.param]


@pytest.fixture(scope="module", params=[True, False], ids=["for any parameters", "for these parameters"])
def generic(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture(scope="module")
def scene(url: str) -> Iterator[Scene]:
    """As a worker's connection sees it."""
    with opened(url, by_index=True) as made:
        yield made


@pytest.fixture(scope="module")
def office(url: str) -> Iterator[Scene]:
    """As everybody else's connection sees it."""
    with opened(url, by_index=False) as made:
        yield made


class opened:  # noqa: N801 - used as a function
    """A scene, and its end."""

    def __init__(self, url: str, *, by_index: bool) -> None:
        self._database = Database(Target(url), by_index=by_index)

    def __enter__(self) -> Scene:
        database = self._database
        with database.raw() as connection:
            connection.execute("update stoker.fires set state = 'closed', closed_at = now() where state = 'open'")
            fire = open_fire(database)
            worker = register(database, fire)
            ((token, other, held),) = connection.execute(
                "select token::text, worker::text, los from stoker.claims where cardinality(los) = %s order by los limit 1",
                (HELD,),
            ).fetchall()
        return Scene(database, fire, worker, other, token, held)

    def __exit__(self, *_: object) -> None:
        self._database.close()


def plain(scene: Scene) -> Parameters:
    ids = scene.held
    return {
        "token": scene.token, "step": 0, "los": ids, "his": ids, "tries": [1] * len(ids), "seconds": [0.1] * len(ids),
        "done": len(ids), "busy": 1.0,
    }  # fmt: skip


def general(scene: Scene) -> Parameters:
    """A bit of everything, and a fifth given back."""
    ids, free, verdicts = scene.held[:50], scene.held[80:], ["retry"] * 20 + ["failed"] * 10
    bad = [ended(task, verdict) for task, verdict in zip(scene.held[50:80], verdicts, strict=True)]
    done = {"los": ids, "his": ids, "tries": [1] * 50, "seconds": [0.1] * 50, "labels": [None] * 50, "results": [None] * 50}
    back = {"free_los": free, "free_his": free, "free_attempts": [0] * len(free)}
    said = [{"id": ids[0], "attempt": 1, "output": "words"}]
    return settling(scene.token, **done, **back, ended=bad, outputs=said, done=50, failed=10, retried=20, busy=1.0)


def part(scene: Scene) -> Parameters:
    """The half of a claim; the other half stays."""
    done, left = scene.held[:50], scene.held[50:]
    fate = {"los": done, "his": done, "tries": [1] * 50, "seconds": [0.1] * 50, "labels": [None] * 50, "results": [None] * 50}
    stay = {"left_los": left, "left_his": left, "left_attempts": [0] * len(left)}
    return settling(scene.token, **fate, **stay, done=50, busy=1.0)


def put(scene: Scene) -> Parameters:
    return {
        "mode": "m", "version": 1, "priority": 0, "max_attempts": None, "payload": "{}", "available_at": None,
        "expires_at": None, "tags": None, "lane_key": None, "needs_approval": False, "key": None, "key_seconds": 0.0,
        "retry_terminal": False,
    }  # fmt: skip


def leaving(scene: Scene) -> Parameters:
    return {
        "worker": scene.worker,
        "reason": "empty",
        "status": None,
        "respawns": 0,
        "peak_memory": 1,
        "cpu": 1.0,
        "db_retries": 0,
    }


def entering(scene: Scene) -> Parameters:
    return {"worker": NOBODY, "fire": scene.fire, "mode": "m", "ordinal": 1, "owner": "{}", "lease": 30.0}


def lost(scene: Scene) -> Parameters:
    return {"worker": scene.other, "kind": "worker lost", "error": "worker lost", "status": None}


def fixed(**parameters: Any) -> Callable[[Scene], Parameters]:
    return lambda scene: parameters


HOT: dict[str, tuple[str, Callable[[Scene], Parameters], int, int]] = {
    "claim at the head": ("claim_batch", lambda s: claiming(s.worker, BATCH), BATCH, A_ROW * BATCH),
    "claim after a mark": (
        "claim_batch",
        lambda s: claiming(s.worker, BATCH, mark_priority=0, mark_lo=FIRST_READY + READY // 2),
        BATCH,
        A_ROW * BATCH,
    ),
    "claim of one": ("claim_batch", lambda s: claiming(s.worker, 1, locks=2), 2, A_START),
    "claim of a mode without tasks": ("claim_batch", lambda s: claiming(s.worker, BATCH, mode="none"), 1, A_START),
    "settle a whole claim": ("settle_plain", plain, HELD, A_ROW * HELD),
    "settle in every way": ("settle", general, HELD, A_ROW * HELD),
    "settle a part": ("settle", part, HELD, A_ROW * HELD),
    "start a claim": ("start_claim", lambda s: {"token": s.token, "dead_after": 60.0}, 1, A_START),
    "find a claim": ("find_claim", lambda s: {"token": s.token}, 1, A_START),
    "read a claim again": ("reread_claim", lambda s: {"token": s.token, "chunk": 100}, HELD, 10 * HELD),
    "find a settlement": ("find_settlement", fixed(id=139_999, token=NOBODY, attempt=1), 1, A_START),
    "find a settlement that is not there": ("find_settlement", fixed(id=FIRST_READY, token=NOBODY, attempt=1), 1, A_START),
    "look": ("look_ready", fixed(mode="m", version=1), 1, A_START),
    "promote": ("promote_due", fixed(limit=BATCH), BATCH, A_ROW * BATCH),
    "renew": ("renew_worker", lambda s: {"worker": s.worker, "lease": 30.0}, 1, A_START),
    "enter": ("register_worker", entering, 1, A_START),
    "leave": ("leave", leaving, 1, A_START),
    "take out what is over": ("prune_tasks", fixed(mark=0, keep=-3600.0, pause=1.0, limit=1000), 1000, 60 * 1000),
    "say the first task": ("first_task", lambda s: {"worker": s.worker}, 1, A_START),
}
"""What a worker sends: the statement, its parameters, and the most rows of one node and the most blocks in all."""

OFFICE: dict[str, tuple[str, Callable[[Scene], Parameters], int, int]] = {
    "enqueue one": ("enqueue_one", put, 1, 2 * A_START),
    "release a lost worker": ("release_worker", lost, HELD, 60 * HELD),
    "promote": ("promote_due", fixed(limit=BATCH), BATCH, A_ROW * BATCH),
    "fence a worker": ("fence_worker", lambda s: {"worker": s.worker, "only_lapsed": False}, 1, A_START),
    "fence a fire": ("fence_fire", lambda s: {"fire": s.fire}, 50, A_START),
    "who lives": ("list_living", fixed(fire=None), 50, A_START),
    "the workers of a fire": ("fire_workers", fixed(fire=5), 12, A_START),
    "the progress of a fire": ("live_progress", fixed(fire=5), 12, A_START),
    "the failures of a fire": ("fire_failures", fixed(fire=5), 250, 2000),
    "admission": ("look_admission", fixed(timezone="UTC", lane="main", key=NOBODY), 50, A_START),
    "why a task waits": ("explain_task", fixed(id=FIRST_READY + READY // 2), 1, A_START),
    "the oldest of each mode": ("watch_oldest", fixed(), 300, 2 * A_START),
    "a few tasks": ("look_states", fixed(ids=[5, FIRST_READY, FIRST_LATER + 90_000]), 4, A_START),
    "a queued task": ("find_task", fixed(id=FIRST_READY + READY // 2), 1, A_START),
    "a done task": ("find_task", fixed(id=5), 1, A_START),
    "a task for later": ("find_task", fixed(id=FIRST_LATER + 90_000), 1, A_START),
    "a failed task": ("find_task", fixed(id=142_000), 1, A_START),
    "a claimed task": ("find_task", lambda s: {"id": s.held[0]}, 5_100, A_START),
}
"""What others send, who come seldom and whose plans are their server's choice. A claimed task is looked for in all claims."""


def asked(scene: Scene, entry: tuple[str, Callable[[Scene], Parameters], int, int], *, generic: bool) -> Plan:
    name, parameters, _, _ = entry
    with scene.database.raw() as connection:
        return explain(connection, name, parameters(scene), generic=generic)


@pytest.mark.parametrize("what", HOT)
def test_what_a_worker_sends_touches_no_more_than_its_batch(scene: Scene, generic: bool, what: str) -> None:
    """P10: no plan reads a whole table, also one that is empty today, and none sorts what it did not take."""
    _, _, rows, blocks = HOT[what]
    plan = asked(scene, HOT[what], generic=generic)
    assert plan.whole_tables == set(), plan.text
    assert plan.most_rows <= rows, plan.text
    assert plan.blocks <= blocks, plan.text


@pytest.mark.parametrize("what", OFFICE)
def test_what_others_send_does_not_grow_with_the_queue(office: Scene, generic: bool, what: str) -> None:
    """P10: with settings as they come; a small table may be read as a whole."""
    _, _, rows, blocks = OFFICE[what]
    plan = asked(office, OFFICE[what], generic=generic)
    assert plan.most_rows <= rows, plan.text
    assert plan.blocks <= blocks, plan.text


@pytest.mark.parametrize("mode", [None, "m"])
def test_a_page_of_the_newest_tasks_reads_that_page(office: Scene, url: str, urls: dict[str, str], mode: str | None) -> None:
    """Of 1,250,000 tasks fifty are looked at, if the statistics know the mode that is asked for."""
    if mode and url != urls["fresh"]:
        pytest.skip("a mode that the statistics do not know is taken to be rare")
    parameters = {"mode": mode, "state": None, "fire": None, "label": None, "kind": None, "limit": 50}
    with office.database.raw() as connection:
        plan = explain(connection, "list_tasks", parameters, generic=False)
    assert plan.most_rows <= 100, plan.text
    assert plan.blocks <= 50 * 40, plan.text


def test_the_pace_and_the_breakage_of_a_mode_are_read_from_its_newest_workers(
    office: Scene, url: str, urls: dict[str, str]
) -> None:
    """An empty fire costs the same whatever the history: of 20,000 workers fifty are read, and one."""
    if url != urls["fresh"]:
        pytest.skip("once a fire; autovacuum has seen the history long before it is long")
    with office.database.raw() as connection:
        for name, rows in (("recent_pace", 60), ("broken_modes", 10)):
            plan = explain(connection, name, {"modes": ["m"]}, generic=False)
            assert plan.most_rows <= rows, plan.text
            assert plan.blocks <= 4 * rows + 10, plan.text


def test_counts_come_from_spans_and_claims_not_from_tasks(office: Scene, generic: bool) -> None:
    """They read the places of all that is queued or held, once: a table that is small when tasks come in bulk."""
    with office.database.raw() as connection:
        for name in ("queue_counts", "backlog", "claim_counts", "unknown_counts"):
            plan = explain(connection, name, {}, generic=generic)
            assert {node.table for node in plan.nodes if node.reads_all and node.blocks} <= {
                "ready",
                "later",
                "claims",
                "unknown",
            }, plan.text
            assert plan.blocks <= 15_000, plan.text


def test_a_worker_that_no_setting_guides_reads_whole_tables(urls: dict[str, str]) -> None:
    """The reason for by_index, and the proof that the tests above can fail."""
    with opened(urls["empty"], by_index=False) as scene:
        assert asked(scene, HOT["claim at the head"], generic=False).most_rows > READY // 2
    with opened(urls["tiny"], by_index=False) as scene:
        assert asked(scene, HOT["settle in every way"], generic=True).most_rows > READY


def test_a_worker_connects_as_these_tests_do_and_nobody_else(url: str) -> None:
    """With the settings that its plans are pinned by."""
    office = Database(Target(url))
    desk = open_desk(orders(office, 1, NOBODY))
    for database, wanted in ((desk._database, ("off", "force_generic_plan")), (office, ("on", "auto"))):
        with database.raw() as connection:
            rows = connection.execute("select current_setting('enable_seqscan'), current_setting('plan_cache_mode')").fetchall()
        database.close()
        assert rows == [wanted]
