"""PgQueuer's side of the bench: install URL | load URL COUNT | work URL (its words: bench/peers/crew.py)."""

import asyncio
import sys

import asyncpg
import uvloop
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver
from pgqueuer.models import Job
from pgqueuer.queries import Queries

BATCH = 500
BULK = 1000


async def install(url: str) -> None:
    """Its schema, and the autovacuum settings that it recommends."""
    queries = Queries(AsyncpgDriver(await asyncpg.connect(url)))
    await queries.install()
    await queries.optimize_autovacuum()


async def load(url: str, count: str) -> None:
    """Lists of jobs, its bulk call."""
    queries = Queries(AsyncpgDriver(await asyncpg.connect(url)))
    for start in range(0, int(count), BULK):
        payloads = [b'{"n":%d}' % number for number in range(start, min(start + BULK, int(count)))]
        await queries.enqueue(["noop"] * len(payloads), list(payloads), [0] * len(payloads))


async def work(url: str) -> None:
    """One worker."""
    handled = 0
    manager = PgQueuer(AsyncpgDriver(await asyncpg.connect(url)))

    @manager.entrypoint("noop")
    async def noop(_job: Job) -> None:
        nonlocal handled
        handled += 1

    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    running = asyncio.create_task(manager.run(batch_size=BATCH))
    await asyncio.to_thread(sys.stdin.readline)
    manager.shutdown.set()
    await running
    print(handled, flush=True)


uvloop.run({"install": install, "load": load, "work": work}[sys.argv[1]](*sys.argv[2:]))
