"""Children for tests, and scenes that run in a process of their own since they change what it is."""

import os
import subprocess
import sys

from stoker.hygiene.process import Child, spawn

HEAD = """
import os, signal, subprocess, sys, time, anyio
from stoker.hygiene.identity import look
from stoker.hygiene.process import *
"""
DEAF = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(600)"


def python(code: str, *arguments: str, **options: object) -> Child:
    """Start ``code`` through the door; by default with our environment, and not bound to us."""
    settings: dict[str, object] = {"env": dict(os.environ), "die_with_parent": False, **options}
    return spawn([sys.executable, "-c", code, *arguments], **settings)  # type: ignore[arg-type]


def up(code: str, *, lines: int = 1, **options: object) -> Child:
    """The same, once it and its family have said so many lines."""
    child = python(code, stdout=subprocess.PIPE, **options)
    assert child.popen.stdout is not None
    for _ in range(lines):
        assert child.popen.stdout.readline()
    child.popen.stdout.close()
    return child


def scene(code: str, *arguments: str, status: int = 0) -> str:
    """Run ``code`` in a process of its own, which ends with ``status``; what it printed."""
    done = subprocess.run(
        [sys.executable, "-c", HEAD + code, *arguments], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == status, done.stderr
    return done.stdout.strip()
