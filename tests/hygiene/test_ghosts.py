"""Processes whose owner is gone are found by their tag, and nobody else gets a signal."""

import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator

import pytest
from tests.end_to_end.project import is_alive
from tests.waiting import wait_until

from stoker.hygiene import ghosts
from stoker.hygiene.ghosts import find_ghosts, reap
from stoker.hygiene.identity import look

SLEEP = "import sys, time; print('up', flush=True); time.sleep(600)"
DEAF = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(600)"
HIDDEN = "import os; os.fork() and os._exit(0); os.setsid(); os.fork() and os._exit(0); " + SLEEP
POLITE = "import signal, sys; signal.signal(signal.SIGTERM, lambda *_: sys.exit(7)); " + SLEEP
HEIR = """
import os, signal, time
def bequeath(*_):
    if os.fork(): os._exit(0)
signal.signal(signal.SIGTERM, bequeath); print('up', flush=True)
while True: time.sleep(600)
"""


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
    """P6, T16: the living worker's, another installation's, an ill-formed tag's and an untagged one are let be."""
    here, gone, living = (str(uuid.uuid4()) for _ in range(3))
    ghost = tagged(started, SLEEP, here, gone)
    kept = [
        tagged(started, SLEEP, here, living),
        tagged(started, SLEEP, str(uuid.uuid4()), gone),
        tagged(started, SLEEP, f"{here}0", gone),
        tagged(started, SLEEP, here, "'; drop table"),
        tagged(started, SLEEP, "", ""),
    ]
    asked: list[set[str]] = []
    found = find_ghosts(here, lambda workers: asked.append(workers) or workers & {living})  # type: ignore[func-returns-value]
    assert ([one.pid for one in found], asked) == ([ghost], [{gone, living}])
    ended = reap({gone}, here, grace_seconds=2)
    assert [(one.pid, one.worker, one.name[:6]) for one in ended] == [(ghost, gone, "python")]
    assert started[0].wait(timeout=5) == -signal.SIGTERM
    assert all(is_alive(pid) for pid in kept)


def test_a_ghost_that_leaves_when_asked_is_not_killed(started: list[subprocess.Popen[bytes]]) -> None:
    """TERM first: it may clean up."""
    here, gone = str(uuid.uuid4()), str(uuid.uuid4())
    tagged(started, POLITE, here, gone)
    assert len(reap({gone}, here, grace_seconds=10)) == 1
    assert started[0].wait(timeout=5) == 7


def test_a_deaf_a_hidden_and_a_bequeathing_ghost_are_ended(started: list[subprocess.Popen[bytes]]) -> None:
    """P6: one that ignores TERM, one behind a double fork and a session of its own, and one that is replaced on TERM."""
    here, gone = str(uuid.uuid4()), str(uuid.uuid4())
    for code in (DEAF, HIDDEN, HEIR):
        tagged(started, code, here, gone)
    pids = [ghost.pid for ghost in find_ghosts(here, lambda _: set())]
    assert len(pids) == 3
    ended = reap({gone}, here, grace_seconds=0.2)
    assert {one.pid for one in ended} > set(pids), "the heir is reported too"
    assert find_ghosts(here, lambda _: set()) == []
    wait_until(lambda: not any(is_alive(pid) for pid in pids), 5, "a ghost lives on")


def test_a_stranger_with_the_pid_of_a_ghost_gets_no_signal(
    started: list[subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """T16: the tag is read again when the process can no longer be exchanged."""
    here, gone = str(uuid.uuid4()), str(uuid.uuid4())
    pid = tagged(started, POLITE, str(uuid.uuid4()), gone)
    stale = [ghosts.Ghost(pid, "python", gone, 1)]
    monkeypatch.setattr(ghosts, "_tagged", lambda installation: [stale.pop()] if stale else [])
    reap({gone}, here, grace_seconds=0.0)
    assert stale == []
    started[0].terminate()
    assert started[0].wait(timeout=10) == 7, "it was killed before it was asked by the test"


def test_who_cannot_be_ended_is_not_reported_as_ended(
    started: list[subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """R36: the wait is bounded, and the answer is honest."""
    here, gone = str(uuid.uuid4()), str(uuid.uuid4())
    tagged(started, SLEEP, here, gone)
    monkeypatch.setattr(ghosts, "send", lambda *_: False)
    monkeypatch.setattr(ghosts, "_BOUND_SECONDS", 0.1)
    assert reap({gone}, here, grace_seconds=0.1) == []
    assert started[0].poll() is None


def test_a_command_inside_a_handler_does_not_end_itself_nor_whoever_called_it() -> None:
    """The caller and its ancestors are exempt, tagged or not."""
    here, worker = str(uuid.uuid4()), str(uuid.uuid4())
    inner = f"from stoker.hygiene.ghosts import *; print(reap({{{worker!r}}}, {here!r}, grace_seconds=0.0))"
    outer = f"import subprocess, sys; raise SystemExit(subprocess.run([sys.executable, '-c', {inner!r}]).returncode)"
    environment = {"PATH": os.environ["PATH"], "STOKER_INSTALLATION": here, "STOKER_WORKER": worker}
    done = subprocess.run([sys.executable, "-c", outer], env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "[]\n")


def test_where_nothing_can_be_read_there_are_no_ghosts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another system, or another user's processes: nothing is found, nothing breaks."""
    monkeypatch.setattr(ghosts, "table", lambda: {2**22 + 1: look(os.getpid())})
    assert find_ghosts(str(uuid.uuid4()), lambda workers: set()) == []
    monkeypatch.setattr(ghosts, "table", dict)
    assert reap({str(uuid.uuid4())}, str(uuid.uuid4()), grace_seconds=5.0) == []
