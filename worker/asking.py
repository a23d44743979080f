"""Asks a mode's health function in a process of its own, for those who import no user code."""

import os
import subprocess
import sys
from collections.abc import Mapping

import anyio

from stoker.hygiene.process import describe_exit, end_tree, spawn
from stoker.worker.health import SECONDS

_ANSWER_BYTES = 1 << 16
_SLACK_SECONDS = 5.0


async def ask(name: str, folder: str, environment: Mapping[str, str]) -> str | None:
    """What is wrong, in the function's own words; None: nothing is. Bounded in time; cancelled, it leaves nothing behind."""
    heard, told = os.pipe()
    try:
        try:
            child = spawn(
                [sys.executable, "-P", "-m", "stoker.worker.health", name, folder, str(told)],
                env=environment,
                cwd=folder,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=(told,),
                die_with_parent=True,
            )
        finally:
            os.close(told)
        try:
            with anyio.move_on_after(SECONDS + _SLACK_SECONDS):
                await child.wait()
        finally:
            with anyio.CancelScope(shield=True):
                is_over = child.returncode is not None
                await end_tree(child, grace_seconds=0.0)
        words = _read(heard)
    finally:
        os.close(heard)
    if not is_over:
        return f"TimeoutError: it took more than {SECONDS:g} s"
    return words or (f"{name} ended its process: {describe_exit(child.returncode)}" if child.returncode else None)


def _read(descriptor: int) -> str:
    os.set_blocking(descriptor, False)
    try:
        return os.read(descriptor, _ANSWER_BYTES).decode("utf-8", "replace")
    except BlockingIOError:
        return ""
