"""Processes whose owner is gone are found by their tag, and nobody else gets a signal."""

import os
import subprocess
import sys
import uuid
from collections.abc import Iterator

import pytest
from tests.end_to_end.project import is_alive
from tests.waiting import wait_until

from stoker.hygiene.ghosts import find_ghosts, reap

SLEEP = "import sys, time; print('up', flush=True); time.sleep(600)"
DEAF = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(600)"
HIDDEN = "import os; os.fork() and os._exit(0); os.setsid(); os.fork() and os._exit(0); " + SLEEP


@pytest.fixture
def started() -> Iterator[list[subprocess.Popen[bytes]]]:
    """Processes of the test, which ends what is left of them."""
    processes: list[subprocess.Popen[bytes]] = []
    yield processes
    for process in processes:
        process.kill()
        process.communicate()


def tagged(started: list[subprocess.Popen[bytes]], code: str, installation: str, worker: str) -> int:
    """Start a process with tags; its pid once it is up."""
    environment = {"PATH": os.environ["PATH"], "STOKER_INSTALLATION": installation, "STOKER_WORKER": worker}
    process = subprocess.Popen([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE)
    started.append(process)
    assert process.stdout is not None
    assert process.stdout.readline() == b"up\n"
    return process.pid


def test_only_processes_of_workers_that_are_gone_are_ghosts(started: list[subprocess.Popen[bytes]]) -> None:
    """P6, T16: the living worker's, another installation's and an ill-formed tag's are let be."""
    here, gone, living = (str(uuid.uuid4()) for _ in range(3))
    ghost = tagged(started, SLEEP, here, gone)
    kept = [
        tagged(started, SLEEP, here, living),
        tagged(started, SLEEP, str(uuid.uuid4()), gone),
        tagged(started, SLEEP, here, "'; drop table"),
    ]
    found = find_ghosts(here, lambda workers: workers & {living})
    assert [one.pid for one in found] == [ghost]
    assert [one.pid for one in reap({gone}, here, grace_seconds=2)] == [ghost]
    started[0].wait(timeout=5)
    assert all(is_alive(pid) for pid in kept)


def test_a_deaf_and_a_hidden_ghost_are_ended(started: list[subprocess.Popen[bytes]]) -> None:
    """P6: also one that ignores TERM, and one that hid behind a double fork and a session of its own."""
    here, gone = str(uuid.uuid4()), str(uuid.uuid4())
    tagged(started, DEAF, here, gone)
    tagged(started, HIDDEN, here, gone)
    pids = [ghost.pid for ghost in find_ghosts(here, lambda _: set())]
    assert len(pids) == 2
    reap({gone}, here, grace_seconds=0.2)
    wait_until(lambda: not any(is_alive(pid) for pid in pids), 5, "a ghost lives on")


def test_a_command_inside_a_handler_does_not_end_itself() -> None:
    """The caller and its ancestors are exempt, tagged or not."""
    here, worker = str(uuid.uuid4()), str(uuid.uuid4())
    code = f"from stoker.hygiene.ghosts import *; print(reap({{{worker!r}}}, {here!r}, grace_seconds=0.0))"
    environment = {"PATH": os.environ["PATH"], "STOKER_INSTALLATION": here, "STOKER_WORKER": worker}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "[]\n")
