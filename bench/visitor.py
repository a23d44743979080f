"""A worker's visits to the database, one after the other, without a runner: the real statements, timed one by one."""

import json
import time
import uuid
from dataclasses import dataclass

import psycopg

from bench import proc
from stoker.sql.database import Database
from stoker.sql.target import Target
from stoker.worker.desk import Desk, new_want
from stoker.worker.orders import ModeOrders, Orders
from stoker.worker.pace import Pace
from stoker.worker.settlement import Settlement, settlement

MODE = "noop"


@dataclass(frozen=True, slots=True)
class Visit:
    """One settlement and the next claim: seconds, the backend's processor seconds in it, tasks claimed, a mark rewound."""

    seconds: float
    cpu_seconds: float
    tasks: int
    rewound: bool


class Visitor:
    """One worker of an open fire, which settles every claim as plainly done in the visit that makes the next."""

    def __init__(self, url: str, batch: int) -> None:
        target = Target(url)
        self._database = Database(target, application="stoker worker", by_index=True)
        fire = self._open_fire()
        orders = Orders(str(uuid.uuid4()), fire, 1, "bench", "/", ModeOrders(MODE), target, task_cap=None)
        self._desk = Desk(orders, self._database)
        if not self._desk.register({}):
            raise AssertionError("a worker of a fire just opened was refused")
        self._pace = Pace(orders.batch_time, batch, expected=1e-7)
        self._over: list[Settlement] = []
        with self._database.raw() as connection:
            self._backend = connection.info.backend_pid

    def _open_fire(self) -> int:
        facts = {"reason": None, "refusal": None, "deadline": None, "code_version": None, "interlocks": "{}", "owner": "{}"}
        key, lane = str(uuid.uuid4()), f"bench-{uuid.uuid4()}"
        rows = self._database.run("open_fire", key=key, lane=lane, state="open", day="2026-01-01", lease=3600.0, **facts)
        return int(rows[0][0])

    def visit(self) -> Visit:
        """Settle what was claimed before and claim again, in one pipeline and one transaction."""
        before = self._pace.rewound_at
        self._pace.rewind_if_due(time.monotonic())
        want = new_want(self._pace, self._pace.batch_limit, 1, ahead=True, alone=False)
        spent, started = proc.run_seconds(self._backend), time.perf_counter()
        answer = self._desk.visit(self._over, want, {})
        seconds, spent = time.perf_counter() - started, proc.run_seconds(self._backend) - spent
        claim = answer.claim
        found = claim.size if claim else 0
        size = claim.payload_size if claim else 0
        rows = len(claim.spans) if claim else 0
        self._pace.saw(rows=rows, tasks=found, asked=want.batch, last=answer.last, size=size)
        self._over = []
        if claim:
            claim.end_before(claim.size)
            self._over = [settlement(claim)]
        return Visit(seconds, spent, found, self._pace.rewound_at != before)

    def close(self) -> None:
        """Settle the last claim and let go of the connection."""
        if self._over:
            self._desk.visit(self._over, None, {})
        self._database.close()


def fill(connection: psycopg.Connection[tuple[object, ...]], count: int, span: int) -> None:
    """Stand ``count`` new tasks in the queue as spans of ``span`` ids, made by the server itself."""
    connection.execute(
        b"with ends as (select setval('stoker.task_ids', nextval('stoker.task_ids') + %(count)s - 1) as hi),"
        b" made as (insert into stoker.tasks (id, mode, payload)"
        b"  select i, %(mode)s, %(payload)s from ends, generate_series(hi - %(count)s + 1, hi) as i)"
        b" insert into stoker.ready (mode, version, priority, lo, hi)"
        b" select %(mode)s, 1, 0, i, least(i + %(span)s - 1, hi)"
        b" from ends, generate_series(hi - %(count)s + 1, hi, %(span)s) as i",
        {"count": count, "span": span, "mode": MODE, "payload": json.dumps({"n": 1})},
    )
