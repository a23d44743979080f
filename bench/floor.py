"""The floor: what psycopg reaches in a bare loop with stoker's guarantees for the rows, in one process without a runner.

    python -m bench.floor URL          (drains mode ``floor``, alone or beside others of its kind)

Kept: a claim is committed under a fresh token before its tasks run; a fenced worker claims nothing; the lease is renewed;
spans are found again by their immutable id; a settlement under a released token changes nothing; no transaction is open
while tasks run; the mark is rewound every second; it leaves only when an unlocked look finds nothing.
Left out: a second process, timeouts, captured output, errors, limits, a growing batch. Settlement and next claim go
together in one pipeline, one commit a batch, and every payload is decoded.
"""

import random
import sys
import time
import uuid
from dataclasses import dataclass, field
from typing import Any

import psycopg
from psycopg.types.numeric import Int8Dumper

from bench.backlog import statement

APPLICATION = "stoker bench floor"
BATCH = 1000
_LOCKS = 2
_BEFORE_ALL = (-(2**31) - 1, -1)
_REWIND_SECONDS = 1.0

Rows = list[tuple[Any, ...]]


@dataclass
class Floor:
    """One process of the floor: its connection, where it is in the queue, and the batch it holds."""

    connection: psycopg.Connection[tuple[Any, ...]]
    worker: str = field(default_factory=lambda: str(uuid.uuid4()))
    mark: tuple[int, int] = _BEFORE_ALL
    rewound_at: float = 0.0
    _claim: bytes = field(default_factory=lambda: statement("floor_claim"))
    _settle: bytes = field(default_factory=lambda: statement("floor_settle"))

    def drain(self) -> int:
        """Work until the queue is empty; how many tasks were done."""
        self._say("floor_enter")
        done, over = 0, None
        while True:
            token, rows = self._visit(over)
            over = None
            if rows:
                if not done:
                    self._say("floor_first")
                over = self._run(token, rows)
                done += len(rows)
            elif self._is_empty():
                break
            else:
                time.sleep(random.uniform(0.001, 0.02))
        self._say("floor_leave")
        return done

    def _visit(self, over: dict[str, Any] | None) -> tuple[str, Rows]:
        """Settle and claim in one pipeline, one transaction."""
        now = time.monotonic()
        if now - self.rewound_at > _REWIND_SECONDS:
            self.mark, self.rewound_at = _BEFORE_ALL, now
        token = str(uuid.uuid4())
        want = {"token": token, "batch": BATCH, "locks": _LOCKS, "worker": self.worker}
        want |= {"mark_priority": self.mark[0], "mark_lo": self.mark[1]}
        with self.connection.pipeline():
            settled = self.connection.execute(self._settle, over) if over else None
            claimed = self.connection.execute(self._claim, want)
        if settled and not settled.fetchall():
            raise SystemExit("stale: the claim was released")
        rows = claimed.fetchall()
        if not rows:
            raise SystemExit("fenced")
        rows = [row for row in rows if row[0] is not None]
        self.mark = max((row[3], row[5]) for row in rows) if len(rows) >= BATCH else _BEFORE_ALL
        return token, rows

    def _run(self, token: str, rows: Rows) -> dict[str, Any]:
        """Do every task; the settlement."""
        started = time.monotonic()
        for _, payload, *_ in rows:
            noop(payload)
        seconds = (time.monotonic() - started) / len(rows)
        spans = sorted({(row[4], row[5], row[2] + 1) for row in rows})
        if sum(hi - lo + 1 for lo, hi, _ in spans) != len(rows):
            raise SystemExit("the rows returned are not those claimed")
        los, his, tries = (list(column) for column in zip(*spans, strict=True))
        return {"token": token, "los": los, "his": his, "tries": tries, "done": len(rows), "seconds": seconds}

    def _is_empty(self) -> bool:
        return self.connection.execute(statement("floor_look")).fetchall() == [(False,)]

    def _say(self, name: str) -> None:
        self.connection.execute(statement(name), {"worker": self.worker})


def noop(payload: Any) -> None:
    """Do nothing, as the handler that is measured."""


def main() -> None:
    """Drain the queue behind the URL."""
    with psycopg.connect(sys.argv[1], autocommit=True, prepare_threshold=2, application_name=APPLICATION) as connection:
        connection.adapters.register_dumper(int, Int8Dumper)
        Floor(connection).drain()


if __name__ == "__main__":
    main()
