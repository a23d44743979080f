"""The handlers that are measured. Files are beside this one."""

import os
import time
from pathlib import Path
from typing import Any

_HERE = Path(__file__).parent


def noop(_task: Any) -> None:
    """Do nothing."""


def stamped(_task: Any) -> None:
    """Say when the task started: monotonic seconds, which every process of the machine shares."""
    now = time.monotonic()
    ledger = os.open(_HERE / "started", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(ledger, f"{now} {os.getpid()}\n".encode())
    os.close(ledger)


def held(task: Any) -> None:
    """Say when the task started, then do nothing until the gate is opened."""
    stamped(task)
    while not (_HERE / "gate").exists():
        time.sleep(0.05)


def everything(task: Any) -> dict[str, str]:
    """Leave a result, a label and a line of output."""
    print("done with", task.id)
    return {"kind": "even" if task.id % 2 else "odd"}


def one_ms(_task: Any) -> None:
    """Sleep for a millisecond."""
    time.sleep(0.001)


def ten_ms(_task: Any) -> None:
    """Sleep for ten."""
    time.sleep(0.01)


def mixed(task: Any) -> None:
    """Of a hundred tasks one takes ten milliseconds, ten take one, and the others nothing."""
    place = task.payload["n"] % 100
    if place == 0:
        time.sleep(0.01)
    elif place <= 10:
        time.sleep(0.001)


async def ten_ms_async(_task: Any) -> None:
    """Sleep for ten milliseconds, and let others go on."""
    import asyncio  # not above: a bench of start-up uses this file too

    await asyncio.sleep(0.01)
