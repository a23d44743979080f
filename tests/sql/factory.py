"""What the tests of the queue are made of: a fire, workers, tasks in spans, and the statements as a worker sends them."""

import json
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import psycopg
from tests.sql.oracle import Counts, check, placed

from stoker.sql.database import Database
from stoker.sql.enqueue import Door, NewTask, enqueue, enqueue_many
from stoker.sql.migrate import check_version, migrate
from stoker.sql.partitions import add_partitions
from stoker.sql.query import in_schema
from stoker.sql.target import Target
from stoker.worker.orders import ModeOrders, Orders
from stoker.worker.pace import BEFORE_ALL


@dataclass(frozen=True, slots=True)
class Row:
    """A row of claim_batch."""

    los: Sequence[int] | None
    his: Sequence[int] | None
    attempts: Sequence[int] | None
    priority: int | None
    lined: bool | None
    tasks: int | None
    payloads: str | None
    caps: Sequence[int | None] | None


@dataclass(frozen=True, slots=True)
class Claimed:
    """What a claim brought. Without a row its worker is fenced; with one empty row nothing was free."""

    token: str
    rows: Sequence[Row]

    @property
    def ids(self) -> list[int]:
        return sorted(task for lo, hi, _ in self.spans for task in range(lo, hi + 1))

    @property
    def is_fenced(self) -> bool:
        return not self.rows

    @property
    def spans(self) -> list[tuple[int, int, int]]:
        """In the order they run. As many payloads came as there are ids."""
        if not self.rows or self.rows[0].los is None:
            return []
        found = list(zip(self.rows[0].los, self.rows[0].his or (), self.rows[0].attempts or (), strict=True))
        assert sum(row.tasks or 0 for row in self.rows) == sum(hi - lo + 1 for lo, hi, _ in found)
        return found

    @property
    def payloads(self) -> list[Any]:
        return [payload for row in self.rows for payload in json.loads(f"[{row.payloads or ''}]")]

    @property
    def mark(self) -> tuple[int, int]:
        return self.rows[0].priority or 0, self.spans[-1][1]


def open_fire(database: Database, lane: str = "main", lease: float = 60.0) -> int:
    """A fire that is open."""
    key = str(uuid.uuid4())
    ((fire,),) = database.run(
        "open_fire", key=key, lane=lane, state="open", refusal=None, reason=None, day="2026-01-01", lease=lease,
        deadline=None, interlocks="{}", code_version=None, owner="{}",
    )  # fmt: skip
    return int(fire)


def register(database: Database, fire: int, mode: str = "m") -> str:
    """A worker of that fire."""
    worker = str(uuid.uuid4())
    assert database.run("register_worker", worker=worker, fire=fire, mode=mode, ordinal=1, owner="{}", lease=60.0)
    return worker


def orders(database: Database, fire: int, worker: str, **mode: Any) -> Orders:
    """Orders such as a launcher gives, for a Desk."""
    return Orders(worker, fire, 1, "installation", "/", ModeOrders("m", **mode), database.target)


def claiming(worker: str, batch: int = 1, **changes: Any) -> dict[str, Any]:
    """The parameters of claim_batch, from the head of the queue unless told otherwise."""
    usual: dict[str, Any] = {
        "worker": worker, "token": str(uuid.uuid4()), "mode": "m", "version": 1, "mark_priority": BEFORE_ALL[0],
        "mark_lo": BEFORE_ALL[1], "locks": batch, "batch": batch, "chunk": 100, "lease": 60.0, "side_effect": False,
        "max_attempts": 3, "ahead": False, "dead_after": 60.0,
    }  # fmt: skip
    assert changes.keys() <= usual.keys()
    return usual | changes


def claim(database: Database, worker: str, batch: int = 1, **changes: Any) -> Claimed:
    """Take up to ``batch`` tasks."""
    parameters = claiming(worker, batch, **changes)
    return Claimed(parameters["token"], database.rows(Row, "claim_batch", **parameters))


def settling_plain(claimed: Claimed, step: int = 0) -> dict[str, Any]:
    """The parameters of settle_plain for the whole of a claim."""
    spans = claimed.spans
    return {
        "token": claimed.token, "step": step, "los": [lo for lo, _, _ in spans], "his": [hi for _, hi, _ in spans],
        "tries": [spent + 1 for _, _, spent in spans], "seconds": [0.001] * len(spans), "done": len(claimed.ids),
        "busy": 0.001 * len(claimed.ids),
    }  # fmt: skip


def settle_plain(database: Database, claimed: Claimed, step: int = 0) -> bool:
    """Settle the whole of a claim as plainly done; False when it was refused."""
    return bool(database.run("settle_plain", **settling_plain(claimed, step)))


def settling(token: str, step: int = 0, **changes: Any) -> dict[str, Any]:
    """The parameters of settle: nothing done, nothing left, unless told otherwise."""
    arrays = ("los", "his", "tries", "seconds", "labels", "results", "left_los", "left_his", "left_attempts", "free_los",
              "free_his", "free_attempts")  # fmt: skip
    usual: dict[str, Any] = {name: [] for name in arrays}
    usual |= {"token": token, "step": step, "ended": [], "outputs": [], "done": 0, "failed": 0, "retried": 0, "busy": 0.0}
    usual["tally"] = None
    assert changes.keys() <= usual.keys()
    usual |= changes
    return usual | {"ended": json.dumps(usual["ended"]), "outputs": json.dumps(usual["outputs"])}


def settle(database: Database, token: str, step: int = 0, **changes: Any) -> bool:
    """Settle a claim, or part of it; False when it was refused."""
    return bool(database.run("settle", **settling(token, step, **changes)))


def ended(task: int, verdict: str, attempt: int = 1, **changes: Any) -> dict[str, Any]:
    """How one task ended otherwise than done."""
    usual = {"id": task, "attempt": attempt, "verdict": verdict, "error_kind": "E", "error": "words", "seconds": 0.5}
    return usual | {"delay": 60.0 if verdict == "retry" else None} | changes


def release(database: Database, worker: str, *, kind: str = "worker lost") -> tuple[int, ...] | None:
    """Free what a worker held: (unstarted, unknown, failed, charged, suspect), or None when there was nothing to do."""
    rows = database.run("release_worker", worker=worker, kind=kind, error=kind, status=None)
    return tuple(rows[0][1:]) if rows else None


def fill(
    connection: psycopg.Connection[Any],
    count: int,
    *,
    span: int = 1,
    mode: str = "m",
    version: int = 1,
    priority: int = 0,
    max_attempts: int | None = None,
    suspect: bool = False,
    schema: str = "stoker",
) -> list[int]:
    """Make ``count`` tasks and stand them in ready as spans of ``span`` ids; the ids."""
    text = """
        with made as (
            insert into stoker.tasks (mode, version, priority, max_attempts, payload)
            select %(mode)s, %(version)s, %(priority)s, %(max_attempts)s, '{}' from generate_series(1, %(count)s) returning id
        ), numbered as (
            select id, (row_number() over (order by id) - 1) / %(span)s as nth from made
        ), stood as (
            insert into stoker.ready (mode, version, priority, lo, hi, suspect)
            select %(mode)s, %(version)s, %(priority)s, min(id), max(id), %(suspect)s from numbered group by nth order by nth
        )
        select id from made order by id
    """
    parameters = {"count": count, "span": span, "mode": mode, "version": version, "priority": priority}
    parameters |= {"max_attempts": max_attempts, "suspect": suspect}
    rows = connection.execute(placed(text, schema, parameters), parameters).fetchall()
    return [row[0] for row in rows]


def full_cycle(url: str, schema: str, **target: Any) -> None:
    """Migrate, enqueue, claim, settle in every way, retry, release, add partitions and look, in one schema."""
    migrate(url, schema)
    database = Database(Target(url, schema, **target))
    door = Door(schema=schema)
    with database.raw() as connection:
        check_version(connection, schema)
        enqueue(connection, NewTask("m", {"n": 1}, priority=-1), door)
        enqueue_many(connection, [NewTask("m", {"n": n}) for n in range(2, 11)], door)
        fire = open_fire(database)
        worker, lost = register(database, fire), register(database, fire)
        assert claim(database, worker).ids == [1]
        plain, mixed = claim(database, worker, 3), claim(database, worker, 3)
        assert settle_plain(database, plain)
        assert settle(database, mixed.token, ended=[ended(5, "retry", delay=0.0), ended(6, "failed"), ended(7, "unknown")])
        assert claim(database, lost, 2).ids == [8, 9]
        assert release(database, lost) == (0, 0, 0, 0, 2)
        assert database.run("promote_due", limit=10) == [(1,)]
        counts = check(connection, schema)
        assert counts == Counts(ready=4, claimed=1, done=3, failed=1, unknown=1)
        rows = database.run("list_tasks", mode="m", state=None, fire=None, label=None, kind=None, limit=20)
        assert [row[0] for row in rows] == list(range(10, 0, -1))
        connection.execute(in_schema("select setval('stoker.task_ids', 15000000)", schema))
        assert add_partitions(database) == 4
        produce(database, connection)
    database.close()


def produce(database: Database, connection: psycopg.Connection[Any]) -> None:
    """Everything that a producer may ask for, in SQL and in Python, in one schema."""
    schema, door = database.target.schema, Door(schema=database.target.schema)

    def ask(text: str) -> Any:
        ((value,),) = connection.execute(in_schema(text, schema)).fetchall()
        return value

    def put(more: str) -> int:
        return int(ask(f"select stoker.enqueue('p', '{{\"a\": [1, 1e10, \"\\u00e9\"]}}', {more})"))

    database.run("see_modes", modes=["m", "p"], versions=[1, 1], payload_limit=1 << 20)
    keyed = put("key => 'k', key_seconds => 60, tags => '{x}'")
    assert put("key => 'k'") == keyed
    assert enqueue_many(connection, [NewTask("p", key="k"), NewTask("p", key="n")], door).duplicates == (0,)
    assert enqueue(connection, NewTask("p", key="k"), door) == keyed
    assert ask("select stoker.status('p', 'k')") == "queued"
    front, behind = put("lane_key => 'l'"), put("lane_key => 'l'")
    held, late = put("needs_approval => true"), put("available_at => now() + interval '1 h', expires_at => now()")
    assert database.run("expire", limit=10) == [(1,)]
    assert ask(f"select stoker.finished_at({late}) is not null")
    assert ask(f"select place from stoker.take_out({front})") == "ready"
    connection.execute(in_schema(f"insert into stoker.cancelled (id, attempts, actor) values ({front}, 0, 'x')", schema))
    assert database.run("move_lines", ids=[front]) == [(1,)]
    assert database.run("open_lines") == [(0,)]
    assert ask(f"select stoker.reopen({front})")
    assert ask(f"select place from stoker.take_out({held})") == "held"
    assert ask(f"select stoker.place({held}, 0, null)") == "ready"
    assert ask("select string_agg(status, ' ' order by id) from stoker.task_queue where mode = 'p'") == (
        "queued queued queued queued queued expired"
    )
    assert behind > front
    check(connection, schema)
