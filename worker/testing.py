"""For the tests of those who write handlers: run one by hand, or drain a queue, as a worker would judge it.

    ran = run_handler(resize, {"path": "a.png"})
    assert (ran.verdict, ran.result) == ("done", {"width": 640})

    with psycopg.connect(url) as connection:
        enqueue(connection, NewTask("resize", {"path": "a.png"}))
    assert drain(url, {"resize": resize}).done == 1

The handler runs in this process and thread, through the runner's own code: results are encoded, errors bounded and redacted,
outcomes and attempts judged as in a fire. There are no limits of time here, and what a handler leaves running is not ended.
"""

import asyncio
import inspect
import json
import os
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from stoker.hygiene.close import NORMAL, Seen, Terms, close_fire
from stoker.hygiene.identity import mine
from stoker.hygiene.restored import installation_of
from stoker.sql.database import Database
from stoker.sql.payload import encode
from stoker.sql.target import Target
from stoker.worker.book import Book, Chunk, Claim, Entry
from stoker.worker.capture import Voice
from stoker.worker.desk import Desk, Want
from stoker.worker.frames import frames
from stoker.worker.orders import ModeOrders, Orders
from stoker.worker.pace import BEFORE_ALL
from stoker.worker.runner import Runner
from stoker.worker.said import note
from stoker.worker.settlement import Settlement, settlement
from stoker.worker.slate import Slate, create
from stoker.worker.task import Task
from stoker.worker.verdict import judge

NOBODY = "00000000-0000-0000-0000-000000000000"
_LEASE_SECONDS = 3600.0
_AT_A_TIME = 100
Handler = Callable[[Task[Any]], Any]


@dataclass(frozen=True, slots=True)
class Ran:
    """How one attempt ended. ``verdict``: done, failed, retry, snooze, held, unknown; ``delay`` in seconds.

    ``question`` is what a held task asks, ``then`` the follow-ups of one that is done, as JSON values.
    """

    verdict: str
    result: Any = None
    error_kind: str | None = None
    error: str | None = None
    delay: float | None = None
    question: str | None = None
    then: list[dict[str, Any]] = field(default_factory=list)


@dataclass(slots=True)
class Drained:
    """What became of the attempts: how many ended done, failed for good, to be tried again, or otherwise."""

    done: int = 0
    failed: int = 0
    retry: int = 0
    other: int = 0


def run_handler(handler: Handler, payload: Any, *, attempt: int = 1, **mode: Any) -> Ran:
    """Run a sync or async handler on one payload, as attempt ``attempt``; ``mode`` are keys of [modes.NAME], such as fail_on.

    Raises PayloadError when the payload is no JSON. A handler that raises makes no exception here, but a verdict.
    """
    orders = _orders(Target(""), ModeOrders(**{"name": "test", **mode}), 0)
    text = encode(payload, orders.payload_limit)
    claim = Claim("", [(1, 1, attempt - 1)], [Chunk(1, text)], started=True, cap=orders.mode.max_attempts)
    entry = _run(handler, claim, orders)[0]
    result = None if entry.result is None else json.loads(entry.result)
    verdict = entry.verdict or "done"
    question = entry.error if verdict == "held" else None
    error = None if question else entry.error
    then = [{**one, "payload": json.loads(one["payload"])} for one in entry.then or ()]
    return Ran(verdict, result, entry.error_kind, error, entry.delay, question, then)


def drain(target: Target | str, handlers: Mapping[str, Handler], **mode: Any) -> Drained:
    """Run everything that is claimable of the modes of ``handlers``, in a fire of its own, until nothing is; the counts.

    What is tried again later stays queued. ``mode`` are keys of [modes.NAME] for all of them. Raises what the database does.
    """
    database = Database(target if isinstance(target, Target) else Target(target))
    drained = Drained()
    try:
        installation = installation_of(database)
        fire = _open(database)
        for name, handler in handlers.items():
            orders = _orders(database.target, ModeOrders(**{"name": name, **mode}), fire, installation)
            desk = Desk(orders, database)
            desk.register(_owner())
            _empty(desk, handler, orders, drained)
            desk.leave("empty", status=None, respawns=0, peak_memory=0, cpu=0.0)
        close_fire(database, Seen(fire), Terms(NORMAL, installation, reap_ghosts=False))
    finally:
        database.close()
    return drained


def _empty(desk: Desk, handler: Handler, orders: Orders, drained: Drained) -> None:
    settlements: list[Settlement] = []
    while claim := desk.visit(settlements, _want(orders), {}).claim:
        _run(handler, claim, orders)
        settled = settlement(claim)
        drained.done += settled.plainly_done
        for entry in settled.entries:
            name = entry.verdict if entry.verdict in ("done", "failed", "retry") else "other"
            setattr(drained, name, getattr(drained, name) + 1)
        settlements = [settled]


def _run(handler: Handler, claim: Claim, orders: Orders) -> dict[int, Entry]:
    """Run the tasks of a claim through a runner's code; their entries by place, judged."""
    heard: list[list[Any]] = []
    book, before = Book(), Task.runner
    book.feed(claim, time.monotonic())
    page = create()
    slate = Slate(page)
    os.close(page)
    called = (lambda task: asyncio.run(handler(task))) if inspect.iscoroutinefunction(handler) else handler
    runner = Runner(orders.hello(""), called, -1, slate, Voice(""))
    runner.send = heard.append  # type: ignore[method-assign, assignment]
    Task.runner = None  # steps and progress are kept in the task alone
    try:
        runner.work(iter(frames(claim)))
    finally:
        Task.runner = before
        slate.close()
    for message in heard:
        if message[0] in ("done", "failed", "ended") and (found := book.find(message[1])):
            note(found[0].entry(found[1]), message)
    book.finish(book.next_number - 1)
    if not claim.entries:
        claim.entry(0).verdict = "done"
    for entry in claim.entries.values():
        judge(entry, orders.mode)
    return claim.entries


def _orders(target: Target, mode: ModeOrders, fire: int, installation: str = NOBODY) -> Orders:
    worker = str(uuid.uuid4())
    return Orders(worker, fire, 1, installation, "/", mode, target, lease=_LEASE_SECONDS)


def _want(orders: Orders) -> Want:
    batch = 1 if orders.mode.side_effect else _AT_A_TIME
    return Want(str(uuid.uuid4()), batch, batch, batch, BEFORE_ALL, ahead=False, version=orders.mode.version)


def _owner() -> dict[str, Any]:
    return asdict(mine())


def _open(database: Database) -> int:
    ((fire,),) = database.run(
        "open_fire",
        key=str(uuid.uuid4()),
        lane=f"test {uuid.uuid4()}",
        state="open",
        refusal=None,
        reason="drained by a test",
        day="1970-01-01",
        lease=_LEASE_SECONDS,
        deadline=_LEASE_SECONDS,
        interlocks="{}",
        code_version=None,
        owner=json.dumps(_owner()),
    )
    return int(fire)
