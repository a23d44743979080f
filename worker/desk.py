"""A keeper's dealings with the database: claim, settle, give back. Blocking: called in a thread, one call at a time."""

import json
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from stoker.sql.database import CommitUnknownError, Database, Parameters, StatementError
from stoker.worker.book import Chunk, Claim
from stoker.worker.notices import Subject
from stoker.worker.orders import Orders
from stoker.worker.pace import Pace
from stoker.worker.settlement import Settlement, following, statement

_SLACK_SECONDS = 30.0
_DAY_SECONDS = 86_400.0
_DUPLICATE = "23505"


@dataclass(frozen=True, slots=True)
class Want:
    """A claim to be made: its token, how many tasks, from where on, and whether another claim is still running.

    Their payloads come in texts of ``chunk`` tasks each.
    """

    token: str
    batch: int
    chunk: int
    locks: int
    mark: tuple[int, int]
    ahead: bool
    version: int


@dataclass(frozen=True, slots=True)
class Answer:
    """What a visit brought: settlements that were refused (released meanwhile), the new claim, whether we are fenced."""

    stale: tuple[Settlement, ...] = ()
    claim: Claim | None = None
    last: tuple[int, int] | None = None
    fenced: bool = False


class Desk:
    """One worker's statements."""

    def __init__(self, orders: Orders, database: Database) -> None:
        self._orders = orders
        self._mode = orders.mode
        self._database = database
        self._is_in_doubt = False

    def register(self, owner: dict[str, Any]) -> bool:
        """Enter this worker into its fire; False when the fire is not open any more."""
        orders = self._orders
        entered = self._database.run(
            "register_worker",
            worker=orders.worker,
            fire=orders.fire,
            mode=self._mode.name,
            ordinal=orders.ordinal,
            owner=json.dumps(owner),
            lease=orders.lease,
        )
        return bool(entered) or self.renew()

    def renew(self) -> bool:
        """Renew the lease; False when this worker is fenced."""
        return bool(self._database.run("renew_worker", worker=self._orders.worker, lease=self._orders.lease))

    def say_first_task(self) -> None:
        """Record when the first task was handed over."""
        self._database.run("first_task", worker=self._orders.worker)

    def look(self) -> tuple[int | None, float | None]:
        """The oldest payload version that is claimable, and in how many seconds the next task of this mode is due."""
        if self._orders.task is not None:
            return None, None
        ((version, due_in),) = self._database.run("look_ready", mode=self._mode.name, version=self._mode.version)
        return version, due_in

    def promote(self) -> None:
        """Make what is due claimable."""
        self._database.run("promote_due", limit=1000)

    def leave(self, reason: str, **facts: Any) -> None:
        """This worker's last word."""
        retries = self._database.retries
        self._database.run("leave", worker=self._orders.worker, reason=reason, db_retries=retries, **facts)

    def visit(self, settlements: Sequence[Settlement], want: Want | None, tally: dict[str, int]) -> Answer:
        """Settle and claim in one pipeline, one transaction.

        Raises CommitUnknownError when the reply was lost; called again with the same, it asks before it repeats.
        """
        if self._is_in_doubt and self._is_committed(settlements, want):
            self._is_in_doubt = False
            return self._answer((), self._reread(want) if want else None, want)
        statements = [statement(settlement, tally) for settlement in settlements]
        if back := [task for settlement in settlements for task in settlement.going_back()]:
            statements.append(("answer_requests", {"ids": back, "limit": len(back)}))
        if lined := [task for settlement in settlements if settlement.claim.lined for task in settlement.ended()]:
            statements.append(("move_lines", {"ids": lined}))
        if then := following(settlements):
            statements.append(("enqueue_following", {"tasks": json.dumps(then, ensure_ascii=False)}))
        if want is not None:
            name = "claim_batch" if self._orders.task is None else "claim_task"
            statements.append((name, self._claiming(want)))
        try:
            results = self._database.flush(*statements)
        except CommitUnknownError:
            self._is_in_doubt = True
            raise
        except StatementError as error:
            # The transaction whose reply was lost was still under way when it was asked for: now it is there.
            if not (self._is_in_doubt and want and error.sqlstate == _DUPLICATE and self._is_claimed(want)):
                raise
            self._is_in_doubt = False
            return self._answer((), self._reread(want), want)
        self._is_in_doubt = False
        stale = tuple(s for s, rows in zip(settlements, results, strict=False) if not rows)
        return self._answer(stale, results[-1] if want else None, want)

    def start(self, claim: Claim) -> bool:
        """Say that a claim made ahead starts; False when it was released meanwhile."""
        found = self._database.run("start_claim", token=claim.token, dead_after=self._dead_after())
        claim.started = True
        return bool(found)

    def called_off(self, tokens: list[str]) -> list[int]:
        """Which tasks of these claims somebody wants called off."""
        return [task for (task,) in self._database.run("find_called_off", tokens=tokens)]

    def steps(self, of: Subject) -> str | None:
        """The finished steps of a task as a JSON object, name and result; None when its claim is gone."""
        found = self._database.run("find_steps", token=of.token, id=of.id)
        return str(found[0][0]) if found else None

    def keep_step(self, of: Subject, name: str, result: str, fraction: float | None) -> str | None:
        """Store a finished step; "true", or None when the claim is gone and nothing was stored."""
        step: Parameters = {"name": name, "result": result, "fraction": fraction}
        kept = self._database.run("finish_step", token=of.token, id=of.id, attempt=of.attempt, **step)
        return "true" if kept else None

    def tell(self, words: Sequence[tuple[Subject, float, str]]) -> None:
        """Store how far tasks are, those that are still held."""
        rows = [
            {"token": of.token, "id": of.id, "attempt": of.attempt, "fraction": fraction, "words": text}
            for of, fraction, text in words
        ]
        self._database.run("write_progress", words=json.dumps(rows))

    def _claiming(self, want: Want) -> Parameters:
        return {
            "worker": self._orders.worker,
            "task": self._orders.task,
            "token": want.token,
            "mode": self._mode.name,
            "version": want.version,
            "mark_priority": want.mark[0],
            "mark_lo": want.mark[1],
            "locks": want.locks,
            "batch": want.batch,
            "chunk": want.chunk,
            "lease": self._orders.lease,
            "side_effect": self._mode.side_effect,
            "max_attempts": self._mode.max_attempts,
            "ahead": want.ahead,
            "dead_after": self._dead_after(),
        }

    def _dead_after(self) -> float:
        """Seconds after which the runner's own timer has certainly ended it."""
        timeout = self._mode.timeout if self._mode.timeout is not None else self._orders.wall_clock
        return (timeout if timeout is not None else _DAY_SECONDS) + self._orders.grace + _SLACK_SECONDS

    def _is_committed(self, settlements: Sequence[Settlement], want: Want | None) -> bool:
        """Whether a pipeline whose reply was lost went through: all of it did, or none.

        Of a claim that is gone, and of which no task had ended, there is nothing left to say; the others tell.
        """
        for settlement in settlements:
            step = self._database.run("find_claim", token=settlement.claim.token)
            if step:
                return bool(step[0][0] != settlement.claim.step)
            ended = [(lo, spent + 1) for lo, _, spent in settlement.plain] + [(e.id, e.attempt) for e in settlement.entries]
            if ended:
                task, attempt = ended[0]
                return bool(self._database.run("find_settlement", token=settlement.claim.token, id=task, attempt=attempt))
        return bool(settlements) or bool(want and self._is_claimed(want))

    def _is_claimed(self, want: Want) -> bool:
        return bool(self._database.run("find_claim", token=want.token))

    def _reread(self, want: Want) -> list[tuple[Any, ...]]:
        return self._database.run("reread_claim", token=want.token, chunk=want.chunk)

    def _answer(self, stale: tuple[Settlement, ...], rows: list[tuple[Any, ...]] | None, want: Want | None) -> Answer:
        if rows is None or want is None:
            return Answer(stale)
        if not rows:
            return Answer(stale, fenced=True)
        los, his, spent, priority, lined, *_ = rows[0]
        if los is None:
            return Answer(stale)
        chunks = [Chunk(tasks, payloads) for *_, tasks, payloads, _ in rows if tasks]
        spans = list(zip(los, his, spent, strict=True))
        claim = Claim(want.token, spans, chunks, started=True, cap=self._mode.max_attempts, caps=_caps(rows))
        claim.started, claim.lined = claim.size > 1 or not want.ahead, lined
        if (tasks := sum(chunk.tasks for chunk in chunks)) != claim.size:
            raise RuntimeError(f"claim {want.token} covers {claim.size} ids, but {tasks} tasks came with it")
        return Answer(stale, claim, (priority, his[-1]))


def open_desk(orders: Orders) -> Desk:
    """A desk with a connection of its own, made when first used, which takes its few rows of large tables by index."""
    return Desk(orders, Database(orders.target, application="stoker worker", by_index=True))


def new_want(pace: Pace, room: int, version: int, *, ahead: bool, alone: bool) -> Want:
    """The next claim under a fresh token: at most ``room`` tasks, one when they must be taken ``alone``."""
    batch = 1 if alone else max(1, min(pace.batch, room))
    return Want(str(uuid.uuid4()), batch, pace.chunk, min(pace.locks, batch + 1), pace.mark, ahead, version)


def _caps(rows: list[tuple[Any, ...]]) -> dict[int, int]:
    """The tasks with most attempts of their own, by place: few of the rows have any."""
    found: dict[int, int] = {}
    place = 0
    for *_, tasks, _, caps in rows:
        found |= {place + at: cap for at, cap in enumerate(caps or ()) if cap is not None}
        place += tasks or 0
    return found
