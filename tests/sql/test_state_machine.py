"""Whatever is done to the queue, in whatever order: nothing is lost, done twice, or in two places.

Hypothesis makes up the orders; PostgreSQL is real. The database is the clock, so the clock is moved by making everything in
it older.
"""

import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test
from tests.sql.factory import claim, ended, open_fire, register, release, settle
from tests.sql.oracle import check

from stoker.hygiene.close import REAPED, Terms
from stoker.hygiene.sweep import sweep
from stoker.sql.database import Database
from stoker.sql.enqueue import NewTask, enqueue, enqueue_many
from stoker.sql.retention import prune

KEEP = 30 * 86_400.0
CAP = 3
PURE, SIDE = "m", "s"
VERDICTS = ("done", "result", "failed", "retry", "snooze", "held", "unknown", "back", "left")
EMPTIED = (
    "tasks, ready, later, claims, outcomes, attempts, outputs, failed, unknown, held, cancelled, expired, cancel_requests,"
    " keys, lines, in_line, steps, progress, workers, notes, fires, events"
)
CLOCKS = {
    "tasks": ("created_at", "expires_at"), "ready": ("expires_at",), "later": ("available_at", "expires_at"),
    "held": ("since", "available_at", "expires_at"), "in_line": ("available_at", "expires_at"), "claims": ("dead_by",),
    "outcomes": ("finished_at",), "attempts": ("finished_at",), "failed": ("failed_at",), "cancelled": ("cancelled_at",),
    "expired": ("expired_at",), "unknown": ("since", "dead_by"), "workers": ("lease_until", "started_at"),
}  # fmt: skip
UNFINISHED_KEYS = "select mode, key, id from stoker.keys where stoker.finished_at(id) is null"
LOOSE_KEYS = "select mode, key, id from stoker.keys k where not exists (select from stoker.tasks t where t.id = k.id)"
# Who is of a line, not over, and not behind others; one that waits for approval has not come to its line yet.
AT_WORK = """
    select t.mode, t.lane_key, array_agg(t.id) from stoker.tasks t
    where t.lane_key is not null and stoker.finished_at(t.id) is null
      and not exists (select from stoker.in_line i where i.id = t.id)
      and not exists (select from stoker.held h where h.id = t.id and h.kind = 'approval')
    group by 1, 2
"""
HEADLESS = """
    select id from stoker.in_line i
    where not exists (select from stoker.lines l where l.mode = i.mode and l.lane_key = i.lane_key)
"""
ORPHANS = """
    select c.token from stoker.claims c join stoker.workers w using (worker) where w.exited_at is not null
"""
TWICE = """
    select token, id from (
        select token, lo as id from stoker.outcomes union all select token, id from stoker.attempts) as ended
    group by 1, 2 having count(*) > 1
"""

flags = st.booleans()
picks = st.integers(0, 20)
soon = st.sampled_from([None, None, timedelta(hours=1)])
tasks = st.builds(
    lambda mode, priority, cap, later, end, key, window, again, lane, asks: NewTask(
        mode,
        {"n": 1},
        priority,
        max_attempts=cap,
        available_at=later and datetime.now(UTC) + later,
        expires_at=end and datetime.now(UTC) + end + timedelta(minutes=30),
        key=key,
        key_seconds=window if key else 0.0,
        retry_terminal=again and key is not None,
        lane_key=lane,
        needs_approval=asks,
    ),
    st.sampled_from([PURE, PURE, SIDE]), st.sampled_from([0, 0, -1]), st.sampled_from([None, None, 1, 2]), soon, soon,
    st.sampled_from([None, None, "a", "b"]), st.sampled_from([0.0, 3600.0, 60 * 86_400.0]), flags,
    st.sampled_from([None, None, "x", "y"]), st.sampled_from([False, False, False, True]),
)  # fmt: skip


@dataclass
class Held:
    """A claim as its worker knows it: the ids with the attempts spent, and the next step."""

    worker: str
    mode: str
    spent: dict[int, int]
    is_started: bool
    step: int = 0
    lined: bool = False
    caps: dict[int, int] = field(default_factory=dict)


class Queue(RuleBasedStateMachine):
    """The rules; a subclass gives the database."""

    stoker: Database
    connection: psycopg.Connection[Any]

    def __init__(self) -> None:
        super().__init__()
        self.ask(f"truncate {', '.join(f'stoker.{name}' for name in EMPTIED.split(', '))}")
        self.ask("update stoker.marks set id = 0, resume_at = '-infinity'")
        self.fire = open_fire(self.stoker)
        self.ask("update stoker.fires set lease_until = 'infinity'")
        self.workers = {mode: [self.hire(mode), self.hire(mode)] for mode in (PURE, SIDE)}
        self.claims: dict[str, Held] = {}
        self.released: list[tuple[str, Held]] = []
        self.all: set[int] = set()

    def ask(self, text: str, *parameters: Any) -> list[Any]:
        cursor = self.connection.execute(text.encode(), parameters or None)
        return cursor.fetchall() if cursor.description else []

    def hire(self, mode: str) -> str:
        return register(self.stoker, self.fire, mode)

    def some(self, pick: int) -> int:
        return sorted(self.all)[pick % len(self.all)]

    def key_owners(self) -> dict[tuple[str, str], int]:
        return {(mode, key): task for mode, key, task in self.ask(UNFINISHED_KEYS)}

    @rule(task=tasks)
    def enqueue_one(self, task: NewTask) -> None:
        owner = self.key_owners().get((task.mode, task.key or ""))
        made = enqueue(self.connection, task)
        assert owner in (None, made), f"key {task.key} is that of {owner}, which is not over, but {made} was made"
        self.all.add(made)

    @rule(several=st.lists(tasks, min_size=1, max_size=6))
    def enqueue_bulk(self, several: list[NewTask]) -> None:
        owners = self.key_owners()
        made = enqueue_many(self.connection, several)
        for task, number in zip(several, made, strict=True):
            assert owners.get((task.mode, task.key or "")) in (None, number)
        self.all |= set(made)

    @rule(which=flags, is_side=flags, batch=st.integers(1, 5), ahead=flags)
    def claim_some(self, which: bool, is_side: bool, batch: int, ahead: bool) -> None:
        mode = SIDE if is_side else PURE
        worker, size = self.workers[mode][which], 1 if is_side else batch
        found = claim(self.stoker, worker, size, mode=mode, side_effect=is_side, max_attempts=CAP, ahead=ahead)
        assert not found.is_fenced
        if not found.spans:
            return
        spent = {task: tried for lo, hi, tried in found.spans for task in range(lo, hi + 1)}
        caps = dict(self.ask("select id, coalesce(max_attempts, %s) from stoker.tasks where id = any(%s)", CAP, list(spent)))
        assert not self.ask("select 1 from stoker.tasks where id = any(%s) and expires_at <= now()", list(spent))
        lined = bool(found.rows[0].lined)
        self.claims[found.token] = Held(worker, mode, spent, not ahead or len(spent) > 1, lined=lined, caps=caps)

    @precondition(lambda self: self.claims)
    @rule(pick=picks)
    def start(self, pick: int) -> None:
        token, held = self.one_claim(pick)
        assert self.stoker.run("start_claim", token=token, dead_after=60.0)
        held.is_started = True

    def one_claim(self, pick: int) -> tuple[str, Held]:
        token = list(self.claims)[pick % len(self.claims)]
        return token, self.claims[token]

    @precondition(lambda self: self.claims)
    @rule(pick=picks, words=st.lists(st.sampled_from(VERDICTS), min_size=5, max_size=5))
    def settle_some(self, pick: int, words: list[str]) -> None:
        """P2: accepted once, whatever it says; the same again changes nothing."""
        token, held = self.one_claim(pick)
        fate = {task: self.verdict(held, task, word) for task, word in zip(held.spent, words, strict=False)}
        if set(fate.values()) == {"left"}:
            return
        parameters = self.settlement(held, fate)
        assert settle(self.stoker, token, held.step, **parameters)
        before = self.ask("select count(*) from stoker.attempts"), self.ask("select count(*) from stoker.outcomes")
        assert not settle(self.stoker, token, held.step, **parameters)
        assert before == (self.ask("select count(*) from stoker.attempts"), self.ask("select count(*) from stoker.outcomes"))
        if held.lined:
            self.stoker.run("move_lines", ids=[task for task, word in fate.items() if word != "left"])
        rest = {task: tried for task, tried in held.spent.items() if fate[task] == "left"}
        held.step += 1
        held.spent = rest
        if not rest:
            self.released.append((token, self.claims.pop(token)))

    def verdict(self, held: Held, task: int, word: str) -> str:
        """What a worker may say of this task."""
        if not held.is_started:
            return "left" if word == "left" else "back"
        if word == "unknown" and held.mode == PURE:
            return "failed"
        return "failed" if word == "retry" and held.spent[task] + 1 >= held.caps[task] else word

    def settlement(self, held: Held, fate: dict[int, str]) -> dict[str, Any]:
        done = [task for task, word in fate.items() if word in ("done", "result")]
        left = [task for task, word in fate.items() if word == "left"]
        free = [task for task, word in fate.items() if word == "back"]
        bad = [
            ended(task, word, held.spent[task] + 1, delay=0.0 if word in ("retry", "snooze") else None)
            for task, word in fate.items()
            if word in ("failed", "retry", "snooze", "held", "unknown")
        ]
        return {
            "los": done, "his": done, "tries": [held.spent[task] + 1 for task in done], "seconds": [0.1] * len(done),
            "labels": [None] * len(done), "results": ["1" if fate[task] == "result" else None for task in done],
            "left_los": left, "left_his": left, "left_attempts": [held.spent[task] for task in left],
            "free_los": free, "free_his": free, "free_attempts": [held.spent[task] for task in free], "ended": bad,
        }  # fmt: skip

    @precondition(lambda self: self.released)
    @rule(pick=picks)
    def settle_too_late(self, pick: int) -> None:
        """P2: who was released meanwhile changes nothing."""
        token, held = self.released[pick % len(self.released)]
        assert not settle(self.stoker, token, held.step, ended=[ended(1, "failed")])
        assert not self.stoker.run("start_claim", token=token, dead_after=60.0)

    @rule(which=flags, is_side=flags)
    def kill_worker(self, which: bool, is_side: bool) -> None:
        """O3: a side effect that may have begun is not simply run again."""
        mode = SIDE if is_side else PURE
        worker = self.workers[mode][which]
        release(self.stoker, worker)
        for token, held in list(self.claims.items()):
            if held.worker == worker:
                self.forget(token)
                if held.mode == SIDE and held.is_started:
                    puzzling = self.ask("select id from stoker.unknown where id = any(%s)", list(held.spent))
                    assert len(puzzling) == len(held.spent)
        self.workers[mode][which] = self.hire(mode)

    def forget(self, token: str) -> None:
        self.released.append((token, self.claims.pop(token)))

    @rule(keeps=flags)
    def sweep_once(self, keeps: bool) -> None:
        """Leases that are over are judged; what is over for long goes, and only that."""
        over = {task for (task,) in self.ask("select id from stoker.tasks where stoker.finished_at(id) is not null")}
        over |= {task for (task,) in self.ask("select id from stoker.tasks where expires_at <= now()")}
        over |= {task for (task,) in self.ask("select id from stoker.cancel_requests")}
        terms = Terms(REAPED, str(uuid.uuid4()), fire_lease=0.0, worker_lease=0.0, reap_ghosts=False)
        sweep(self.stoker, terms, installation=terms.installation, keep_seconds=None if keeps else KEEP)
        there = {str(token) for (token,) in self.ask("select token from stoker.claims")}
        for token in set(self.claims) - there:
            self.forget(token)
        for crew in self.workers.values():
            for place, worker in enumerate(crew):
                if self.ask("select 1 from stoker.workers where worker = %s and exited_at is not null", worker):
                    crew[place] = self.hire(PURE if crew is self.workers[PURE] else SIDE)
        self.all -= self.gone(over)
        assert not self.ask(HEADLESS), "some stand in a line that has no front"
        assert not self.stoker.run("stale_fronts", limit=10)

    def gone(self, allowed: set[int]) -> set[int]:
        there = {task for (task,) in self.ask("select id from stoker.tasks")}
        gone = self.all - there
        assert gone <= allowed, f"taken out, but not over: {gone - allowed}"
        return gone

    @rule()
    def take_out_the_old(self) -> None:
        over = {
            task for (task,) in self.ask("select id from stoker.tasks where stoker.finished_at(id) < now() - interval '30 d'")
        }
        self.ask("update stoker.marks set resume_at = '-infinity'")
        pruned = prune(self.stoker, KEEP)
        assert not pruned.is_interrupted
        gone = self.gone(over)
        assert len(gone) == pruned.tasks
        self.all -= gone

    @rule(limit=st.sampled_from([1, 100]))
    def promote(self, limit: int) -> None:
        self.stoker.run("promote_due", limit=limit)

    @precondition(lambda self: self.all)
    @rule(pick=picks)
    def cancel(self, pick: int) -> None:
        """As an operator does: at once where it waits, by request where it runs."""
        task = self.some(pick)
        with self.connection.transaction():
            ((place, spent, _),) = self.ask("select * from stoker.take_out(%s)", task)
            if place is not None:
                self.ask("insert into stoker.cancelled (id, attempts, actor) values (%s, %s, 'test')", task, spent)
            elif any(task in held.spent for held in self.claims.values()):
                self.ask("insert into stoker.cancel_requests (id, actor) values (%s, 'test') on conflict do nothing", task)
        self.stoker.run("move_lines", ids=[task])

    @precondition(lambda self: self.all)
    @rule(pick=picks)
    def reopen(self, pick: int) -> None:
        self.ask("select stoker.reopen(%s)", self.some(pick))

    @precondition(lambda self: self.all)
    @rule(pick=picks)
    def decide(self, pick: int) -> None:
        """Somebody answers for what is held, or for what is unknown."""
        task = self.some(pick)
        with self.connection.transaction():
            for table in ("held", "unknown"):
                for (spent,) in self.ask(f"delete from stoker.{table} where id = %s returning attempts", task):
                    self.ask("select stoker.place(%s, %s, null)", task, spent)

    @rule(minutes=st.sampled_from([2, 120, 40 * 24 * 60]))
    def advance(self, minutes: int) -> None:
        for table, columns in CLOCKS.items():
            sets = ", ".join(f"{name} = {name} - make_interval(mins => {minutes})" for name in columns)
            self.ask(f"update stoker.{table} set {sets}")

    @invariant()
    def everything_is_in_its_place(self) -> None:
        check(self.connection)
        there = {task for (task,) in self.ask("select id from stoker.tasks")}
        assert there == self.all
        assert not self.ask(ORPHANS), "claims without a living owner"
        assert not self.ask(TWICE), "a token that ended a task twice"
        assert not self.ask(LOOSE_KEYS), "keys of nobody"
        fronts = {(mode, lane): task for mode, lane, task in self.ask("select mode, lane_key, id from stoker.lines")}
        for mode, lane, ids in self.ask(AT_WORK):
            assert ids == [fronts.get((mode, lane))], f"of line {lane} of {mode}: {ids} at work, front {fronts}"
        tokens = {str(token): sum(hi - lo + 1 for lo, hi in zip(los, his, strict=True))
                  for token, los, his in self.ask("select token, los, his from stoker.claims")}  # fmt: skip
        assert tokens == {token: len(held.spent) for token, held in self.claims.items()}


def run(stoker: Database, connection: psycopg.Connection[Any], examples: int, steps: int) -> None:
    machine = type("Machine", (Queue,), {"stoker": stoker, "connection": connection})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_whatever_is_done_in_whatever_order_nothing_is_lost(stoker: Database, connection: psycopg.Connection[Any]) -> None:
    """P1, P2, O1, O3: short stories."""
    run(stoker, connection, 25, 30)


@pytest.mark.soak
def test_long_stories(stoker: Database, connection: psycopg.Connection[Any]) -> None:
    """P1, P2, O1, O3: many, and long ones."""
    run(stoker, connection, 500, 80)
