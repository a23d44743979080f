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
