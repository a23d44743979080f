"""Users' loops: each pass is a process of its own, which holds the time limit on all that it starts (worker/loop.py)."""

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import anyio
from anyio.to_thread import run_sync

from stoker.hygiene.process import Child, describe_exit, end_tree, spawn
from stoker.orchestrator.config import Config
from stoker.orchestrator.launchers.local import KEEPER_ENVIRONMENT
from stoker.orchestrator.logs import log
from stoker.orchestrator.muster import tighter
from stoker.orchestrator.readiness import loop_component
from stoker.orchestrator.settings import LoopSettings
from stoker.sql.database import DatabaseUnreachableError
from stoker.worker.loop import LoopOrders
from stoker.worker.orders import BASE_ENVIRONMENT

_TICK_SECONDS = 0.1
_ANSWER_BYTES = 1 << 16


class LoopError(Exception):
    """A pass of a user's loop failed: in its own words, or by how its process ended."""


@dataclass(frozen=True, slots=True)
class Passed:
    """What came of one pass."""

    name: str
    count: int | None
    seconds: float
    error: str | None

    def facts(self) -> dict[str, Any]:
        """As JSON values, for a note."""
        return {"name": self.name, "count": self.count, "seconds": round(self.seconds, 3), "error": self.error}


@dataclass(frozen=True, slots=True)
class ChildLoop:
    """A loop whose every batch is a process of its own."""

    orders: LoopOrders
    interval: float
    core: bool
    jitter: float

    @property
    def name(self) -> str:
        """What its heartbeats are called."""
        return loop_component(self.orders.name)

    @property
    def longest(self) -> float:
        """How long one batch may take by itself."""
        return self.orders.longest

    async def once(self) -> int:
        """Do one batch; raises LoopError when it failed."""
        passed = await pass_once(self.orders)
        if passed.error is not None:
            raise LoopError(passed.error)
        return passed.count or 0


def loops_of(config: Config, environ: Mapping[str, str]) -> list[ChildLoop]:
    """The loops that are configured."""
    return [
        ChildLoop(orders_of(config, one, environ), one.interval_seconds, one.tier == "core", one.jitter)
        for one in config.loops.values()
    ]


def orders_of(config: Config, loop: LoopSettings, environ: Mapping[str, str], limit: float | None = None) -> LoopOrders:
    """What one pass of ``loop`` is told; in a fire it takes no longer than the fire's own ``limit`` (seconds)."""
    return LoopOrders(
        name=loop.name,
        folder=str(config.folder),
        handler=loop.handler,
        command=loop.command,
        time_limit=tighter(loop.time_limit_seconds, limit) or loop.time_limit_seconds,
        grace=config.worker.grace_seconds,
        environment={name: environ[name] for name in (*BASE_ENVIRONMENT, *loop.env) if name in environ},
    )


async def pass_once(orders: LoopOrders) -> Passed:
    """Do one pass, and wait for its end; cancelled, it is told to stop and waited for, within its grace."""
    started = time.monotonic()
    try:
        child = spawn(
            [sys.executable, "-P", "-m", "stoker.worker.loop"],
            env={name: os.environ[name] for name in KEEPER_ENVIRONMENT if name in os.environ},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            die_with_parent=False,
        )
    except OSError as error:
        return Passed(orders.name, None, 0.0, f"it cannot be started: {os.strerror(error.errno or 0)}")
    try:
        facts = await _attended(child, orders)
    finally:
        for pipe in (child.popen.stdin, child.popen.stdout):
            if pipe is not None:
                pipe.close()
    if facts["said"].strip():
        log("loop said", loop=loop_component(orders.name), text=facts["said"])
    if facts["strays"]:
        log("loop left processes", "warning", loop=loop_component(orders.name), killed=facts["strays"])
    return Passed(orders.name, facts["count"], time.monotonic() - started, facts["error"])


async def in_a_fire(
    loops: Sequence[LoopOrders], renew: Callable[[], bool], every_seconds: float, is_told: Callable[[], bool]
) -> list[Passed]:
    """One pass of each, all at once, while ``renew`` keeps the fire; a signal, or the loss of the fire, ends them."""
    started, passed = time.monotonic(), dict[str, Passed]()

    async def one(orders: LoopOrders) -> None:
        passed[orders.name] = await pass_once(orders)
        if len(passed) == len(loops):
            group.cancel_scope.cancel()

    async with anyio.create_task_group() as group:
        for orders in loops:
            group.start_soon(one, orders)
        renewed = time.monotonic()
        while not is_told():
            await anyio.sleep(_TICK_SECONDS)
            if time.monotonic() - renewed > every_seconds:
                renewed = time.monotonic()
                with contextlib.suppress(DatabaseUnreachableError):
                    if not await run_sync(renew):
                        break
        group.cancel_scope.cancel()
    stopped = time.monotonic() - started
    return [passed.get(one.name, Passed(one.name, None, stopped, "it was told to stop")) for one in loops]


async def _attended(child: Child, orders: LoopOrders) -> dict[str, Any]:
    """Hand the orders over, wait, and read what came of it. A keeper that outlives its own limits is ended by force."""
    try:
        with contextlib.suppress(BrokenPipeError):
            await run_sync(os.write, _descriptor(child.popen.stdin), (orders.to_json() + "\n").encode())
        with anyio.move_on_after(orders.longest):
            await child.wait()
    finally:
        with anyio.CancelScope(shield=True):
            if child.returncode is None:
                child.terminate()
                with anyio.move_on_after(orders.grace + 10.0):
                    await child.wait()
            if child.returncode is None:
                await end_tree(child, grace_seconds=0.0)
    output = _descriptor(child.popen.stdout)
    os.set_blocking(output, False)
    try:
        facts: dict[str, Any] = json.loads(os.read(output, _ANSWER_BYTES))
    except (BlockingIOError, ValueError):
        how = describe_exit(child.returncode)
        return {"count": None, "error": f"what kept it ended without a word: {how}", "said": "", "strays": 0}
    return facts


def _descriptor(pipe: Any) -> int:
    number: int = pipe.fileno()
    return number
