"""Procrastinate's side of the bench: install URL | load URL COUNT | work URL (its words: bench/peers/crew.py)."""

import asyncio
import sys
from contextlib import suppress

from procrastinate import App, PsycopgConnector

BULK = 1000
CONCURRENCY = 10


async def main(verb: str, url: str, count: str = "0") -> None:
    """Do one of the three."""
    handled = 0
    app = App(connector=PsycopgConnector(conninfo=url, min_size=CONCURRENCY, max_size=CONCURRENCY + 2))

    @app.task(name="noop")
    async def noop(n: int) -> None:  # noqa: ARG001
        nonlocal handled
        handled += 1

    async with app.open_async():
        if verb == "install":
            await app.schema_manager.apply_schema_async()
        elif verb == "load":
            for start in range(0, int(count), BULK):
                numbers = range(start, min(start + BULK, int(count)))
                await noop.batch_defer_async(*({"n": number} for number in numbers))
        else:
            await work(app)
            print(handled, flush=True)


async def work(app: App) -> None:
    """One worker."""
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    running = asyncio.create_task(app.run_worker_async(concurrency=CONCURRENCY, install_signal_handlers=False))
    await asyncio.to_thread(sys.stdin.readline)
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running


asyncio.run(main(*sys.argv[1:]))
