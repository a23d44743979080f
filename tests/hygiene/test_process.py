"""Processes are started through one door, and ended with everything under them.

Scenes that make their process a subreaper run in a process of their own, and print what they saw.
"""

import os
import signal
import subprocess
import sys
from pathlib import Path

import anyio
import pytest
from tests.end_to_end.project import is_alive
from tests.waiting import wait_until

from stoker.hygiene.process import Child, describe_exit, end_tree, send, spawn

DAEMON = """
import os, sys, time
if os.fork(): os._exit(0)
os.setsid()
if os.fork(): os._exit(0)
open(sys.argv[1], "w").write(str(os.getpid()))
time.sleep(600)
"""


def python(code: str, *arguments: str, **options: object) -> Child:
    settings: dict[str, object] = {"env": dict(os.environ), "die_with_parent": False, **options}
    return spawn([sys.executable, "-c", code, *arguments], **settings)  # type: ignore[arg-type]


def scene(code: str, *arguments: str) -> str:
    """Run ``code`` in a process of its own; what it printed."""
    head = "import os, signal, subprocess, sys, time, anyio\nfrom stoker.hygiene.process import *\n"
    done = subprocess.run(
        [sys.executable, "-c", head + code, *arguments], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_child_gets_exactly_its_environment_and_a_session_of_its_own() -> None:
    """T09: nothing is inherited."""
    code = "import os; print(sorted(os.environ.items()), os.getsid(0) == os.getpid())"
    child = python(code, env={"ONE": "1"}, stdout=subprocess.PIPE)
    said, _ = child.popen.communicate()
    assert b"('ONE', '1')" in said
    assert not any(name in said for name in (b"PATH", b"HOME", b"PYTEST"))
    assert said.strip().endswith(b"True")


def test_a_deaf_child_is_killed_after_the_grace() -> None:
    """R22: TERM, grace, KILL; the exit status says which it was."""
    deaf = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); time.sleep(600)"
    child = python(deaf, stdout=subprocess.PIPE)
    assert child.popen.stdout is not None
    child.popen.stdout.readline()
    ended = anyio.run(lambda: end_tree(child, grace_seconds=0.2))
    assert (child.returncode, ended.unkillable) == (-signal.SIGKILL, ())
    child.popen.stdout.close()


def test_a_child_that_answers_a_signal_with_new_children_leaves_none() -> None:
    """P6: the tree is looked at again until nothing of it is left."""
    again = """
import os, signal, sys, time
def again(*_):
    for _ in range(3):
        if os.fork() == 0: break
signal.signal(signal.SIGTERM, again); print("ready", flush=True)
while True: time.sleep(0.05)
"""
    code = f"""
become_subreaper()
child = spawn([sys.executable, "-c", {again!r}], env={{}}, stdout=subprocess.PIPE, die_with_parent=True)
child.popen.stdout.readline()
async def end(): await end_tree(child, grace_seconds=0.3)
anyio.run(end)
end_strays()
print(child.returncode, descendants(os.getpid()))
"""
    assert scene(code) == "-9 []"


def test_a_waiter_wakes_although_another_task_reaped_the_child() -> None:
    """A wait and an end_tree at once: both return."""

    async def both() -> int:
        child = python("import time; time.sleep(600)")
        with anyio.fail_after(10):
            async with anyio.create_task_group() as group:
                group.start_soon(child.wait)
                await anyio.lowlevel.checkpoint()
                await end_tree(child, grace_seconds=5)
        return child.returncode or 0

    assert [anyio.run(both) for _ in range(20)] == [-signal.SIGTERM] * 20


def test_a_daemonised_grandchild_is_found_by_its_subreaper(tmp_path: Path) -> None:
    """P6: double fork and a session of its own do not hide it; whoever is kept, is kept."""
    code = f"""
become_subreaper()
kept = spawn([sys.executable, "-c", "import time; time.sleep(600)"], env=dict(os.environ), die_with_parent=True)
spawn([sys.executable, "-c", {DAEMON!r}, sys.argv[1]], env=dict(os.environ), die_with_parent=True).popen.wait()
while not os.path.exists(sys.argv[1]) or not open(sys.argv[1]).read(): time.sleep(0.01)
print(end_strays([kept.pid]), kept.poll(), descendants(os.getpid()) == [kept.pid])
kept.popen.kill(); kept.popen.wait()
"""
    assert scene(code, str(tmp_path / "pid")) == "1 None True"
    assert not is_alive(int((tmp_path / "pid").read_text()))


def test_exit_statuses_survive_the_reaping_of_strays() -> None:
    """R37, R38: 100 short children, strays among them, SIGCHLD ignored at the start: every status is right, no zombie."""
    code = """
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
become_subreaper()
stray = "import os, sys; os.fork() or os.fork() or os._exit(9); sys.exit(int(sys.argv[1]))"
wrong = 0
for n in range(100):
    child = spawn([sys.executable, "-S", "-c", stray, str(n)], env={}, die_with_parent=True)
    end_strays()
    wrong += anyio.run(child.wait) != n
end_strays()
from stoker.hygiene.identity import parent_of
left = [p for p in os.listdir("/proc") if p.isdigit() and parent_of(int(p)) == os.getpid()]
print(wrong, left, len(os.listdir("/proc/self/fd")) < 20)
"""
    assert scene(code) == "0 [] True"


def test_a_child_that_must_die_with_its_parent_does(tmp_path: Path) -> None:
    """P6: the parent is killed; the child that asked for it is gone, the other is not."""
    code = """
for bound in (True, False):
    child = spawn([sys.executable, "-c", "import time; time.sleep(600)"], env={}, die_with_parent=bound)
    open(os.path.join(sys.argv[1], str(bound)), "w").write(str(child.pid))
os.kill(os.getpid(), signal.SIGKILL)
"""
    head = "import os, signal, sys\nfrom stoker.hygiene.process import spawn\n"
    subprocess.run([sys.executable, "-c", head + code, str(tmp_path)], check=False)
    bound, free = (int((tmp_path / name).read_text()) for name in ("True", "False"))
    wait_until(lambda: not is_alive(bound), 5, "the bound child lives on")
    assert is_alive(free)
    assert send(free, signal.SIGKILL)
    wait_until(lambda: not is_alive(free), 5)


@pytest.mark.parametrize(
    ("code", "words"),
    [(0, "exit status 0"), (3, "exit status 3"), (-9, "SIGKILL"), (-35, "signal 35"), (None, "no exit status")],
)
def test_an_exit_is_described(code: int | None, words: str) -> None:
    """A note says how a worker ended."""
    assert describe_exit(code) == words
