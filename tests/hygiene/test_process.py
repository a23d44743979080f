"""Processes are started through one door, with nothing of ours in them, and their ends are told truly.

Scenes that change what is inherited run in a process of their own, and print what they saw.
"""

import gc
import os
import signal
import subprocess
import threading
from pathlib import Path

import anyio
import pytest
from tests.end_to_end.project import is_alive
from tests.hygiene.scenes import python, scene
from tests.waiting import wait_until

from stoker.hygiene.kinship import send
from stoker.hygiene.process import STATUS_LOST, describe_exit, kill_tree_now, spawn


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_a_child_gets_exactly_its_environment_and_a_session_of_its_own() -> None:
    """T09: nothing is inherited."""
    child = python("import os; print(os.getsid(0) == os.getpid())", env={"ONE": "1"}, stdout=subprocess.PIPE)
    assert child.popen.communicate()[0] == b"True\n"
    child = spawn(["/usr/bin/env"], env={"ONE": "1"}, stdout=subprocess.PIPE, die_with_parent=False)
    assert child.popen.communicate()[0] == b"ONE=1\n"


def test_a_child_starts_with_signals_as_they_are_by_default() -> None:
    """A parent that ignores or blocks signals, as nohup does, starts children that do not; only named pipes are passed."""
    code = """
for number in (signal.SIGCHLD, signal.SIGPIPE, signal.SIGHUP, signal.SIGUSR1, signal.SIGQUIT, signal.SIGTERM):
    signal.signal(number, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM, signal.SIGUSR2])
os.set_inheritable(os.open("/dev/null", os.O_RDONLY), True)
def show(*command):
    child = spawn(command, env={}, stdout=subprocess.PIPE, die_with_parent=False)
    return child.popen.communicate()[0].split()

# The C library keeps signals 32 and 33 to itself.
masks = show("/bin/grep", "-hoP", "Sig(Blk|Ign):\\s*\\K.*", "/proc/self/status")
print([int(mask, 16) & ~(3 << 31) for mask in masks], end=" ")
print(len(show("/bin/ls", "/proc/self/fd")), sorted(map(int, signal.pthread_sigmask(signal.SIG_BLOCK, []))))
"""
    assert scene(code) == f"[0, 0] 4 {[int(signal.SIGUSR2), int(signal.SIGTERM)]}"


def test_a_signal_to_a_child_that_is_just_being_started_is_not_taken_for_the_parents() -> None:
    """R23: between fork and exec, a child shares the pipe that wakes its parent's event loop."""
    code = '''
watch = """
import contextlib, os, sys
told = set()
while True:
    for pid in set(map(int, open(sys.argv[1]).read().split())) - {os.getpid()} - told:
        told.add(pid)
        with contextlib.suppress(OSError): os.kill(pid, 15)
"""
reading, writing = os.pipe()
os.set_blocking(reading, False), os.set_blocking(writing, False)
signal.signal(signal.SIGTERM, lambda *_: None)
signal.set_wakeup_fd(writing)
watcher = subprocess.Popen([sys.executable, "-c", watch, f"/proc/{os.getpid()}/task/{os.getpid()}/children"], stderr=-3)
ended = [spawn(["/bin/sleep", "60"], env={}, die_with_parent=True).popen.wait() for _ in range(60)]
watcher.kill(), watcher.wait()
try: print("the parent was told", os.read(reading, 99))
except BlockingIOError: print(set(ended))
'''
    assert scene(code) == "{-15}"


def test_a_child_that_must_die_with_its_parent_does(tmp_path: Path) -> None:
    """P6: the parent is killed; the child that asked for it is gone, the other is not."""
    code = """
for bound in (True, False):
    child = spawn([sys.executable, "-c", "import time; time.sleep(600)"], env={}, stdout=-3, stderr=-3, die_with_parent=bound)
    open(os.path.join(sys.argv[1], str(bound)), "w").write(str(child.pid))
    kept = [child, *globals().get("kept", [])]
os.kill(os.getpid(), signal.SIGKILL)
"""
    scene(code, str(tmp_path), status=-signal.SIGKILL)
    bound, free = (int((tmp_path / name).read_text()) for name in ("True", "False"))
    wait_until(lambda: not is_alive(bound), 5, "the bound child lives on")
    assert is_alive(free)
    assert send(free, signal.SIGKILL, lambda: True)
    wait_until(lambda: not is_alive(free), 5)


def test_a_child_that_dies_with_its_parent_outlives_the_thread_that_started_it() -> None:
    """It is bound to the process: a thread that ends, or a child object that is let go, kills nobody."""
    started: list[subprocess.Popen[bytes]] = []
    code = "import sys; sys.exit(int(input()))"
    thread = threading.Thread(target=lambda: started.append(python(code, stdin=subprocess.PIPE, die_with_parent=True).popen))
    thread.start()
    thread.join()
    gc.collect()
    started[0].communicate(b"3\n")
    assert describe_exit(started[0].returncode) == "exit status 3"


def test_whoever_is_in_the_group_of_a_child_that_must_die_dies_too(tmp_path: Path) -> None:
    """P6: also what the child has started, unless it left the group."""
    code = """
below = "import os, sys, time; pid = os.fork(); pid and open(sys.argv[1], 'w').write(str(pid)); time.sleep(600)"
path = os.path.join(sys.argv[1], "pid")
child = spawn([sys.executable, "-c", below, path], env={}, stdout=-3, stderr=-3, die_with_parent=True)
while not os.path.exists(path) or not open(path).read(): pass
os.kill(os.getpid(), signal.SIGKILL)
"""
    scene(code, str(tmp_path), status=-signal.SIGKILL)
    pid = int((tmp_path / "pid").read_text())
    wait_until(lambda: not is_alive(pid), 5, "the grandchild lives on")


def test_exit_statuses_are_kept_where_sigchld_was_ignored() -> None:
    """R37: some parents start us so, and the kernel would throw every status away."""
    code = """
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
child = spawn(["/bin/sh", "-c", "exit 3"], env={}, die_with_parent=True)
print(anyio.run(child.wait))
"""
    assert scene(code) == "3"


def test_a_status_that_somebody_else_took_is_not_read_as_success() -> None:
    """P1: a task whose program failed is not done because its status went missing."""
    child = python("raise SystemExit(3)")
    os.waitpid(child.pid, 0)
    assert anyio.run(child.wait) == STATUS_LOST
    assert (child.returncode, describe_exit(child.returncode)) == (STATUS_LOST, "no exit status")


@pytest.mark.parametrize("has_pidfd", [True, False])
def test_a_wait_can_be_bounded_and_taken_up_again(has_pidfd: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cancelled wait leaves the child as it is; so too where there are no pidfds."""
    if not has_pidfd:
        monkeypatch.delattr(os, "pidfd_open")
    child = python("import sys; sys.stdin.read(); raise SystemExit(4)", stdin=subprocess.PIPE)

    async def wait() -> int | None:
        with anyio.move_on_after(0.05):
            return await child.wait()
        assert child.popen.stdin is not None
        child.popen.stdin.close()
        with anyio.fail_after(10):
            return await child.wait()

    assert anyio.run(wait) == 4


def test_descriptors_do_not_pile_up() -> None:
    """R34: 300 children, waited for, waited for in part, ended, or let go."""
    open_before = descriptors()

    async def start() -> None:
        for number in range(300):
            child = spawn(["/bin/sleep", "60" if number % 2 else "0"], env={}, die_with_parent=False)
            with anyio.move_on_after(0 if number % 2 else 10):
                await child.wait()
            if number % 20 == 1:
                kill_tree_now(child)
            child.popen.kill()
            child.popen.wait()

    anyio.run(start)
    assert descriptors() <= open_before


@pytest.mark.parametrize(
    ("code", "words"),
    [(0, "exit status 0"), (3, "exit status 3"), (-9, "SIGKILL"), (-35, "signal 35"), (None, "no exit status")],
)
def test_an_exit_is_described(code: int | None, words: str) -> None:
    """A note says how a worker ended."""
    assert describe_exit(code) == words
