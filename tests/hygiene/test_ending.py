"""A child is ended with everything under it, and what is nobody's is ended too; whoever is somebody's is let be."""

import contextlib
import errno
import os
import signal
import time
import uuid
from pathlib import Path

import anyio
import pytest
from tests.end_to_end.project import is_alive
from tests.hygiene.scenes import DEAF, python, scene, up
from tests.waiting import wait_until

from stoker.hygiene import ending, kinship
from stoker.hygiene.ghosts import find_ghosts, reap
from stoker.hygiene.process import Child, TreeEnd, descendants, end_tree, kill_tree_now

DAEMON = """
import os, sys, time
if os.fork(): os._exit(0)
os.setsid()
if os.fork(): os._exit(0)
open(sys.argv[1], "w").write(str(os.getpid()))
time.sleep(600)
"""
FAMILY = f"import os; os.fork() or os.setsid(); os.fork(); {DEAF}"  # four, in two sessions
HEIR = """
import os, signal, time
def bequeath(*_):
    if os.fork(): os._exit(0)
signal.signal(signal.SIGTERM, bequeath); print('up', flush=True)
while True: time.sleep(600)
"""
HOPPER = """
import os, signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork() == 0:
    print('up', flush=True)
    while True:
        if os.fork(): os._exit(0)
signal.pause()
"""


def tags(installation: str) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "STOKER_INSTALLATION": installation, "STOKER_WORKER": str(uuid.uuid4())}


def left_of(installation: str) -> list[str]:
    """Who still has the tag; they are ended too, so that a failing test leaves nobody."""
    ghosts = find_ghosts(installation, lambda workers: set())
    reap({ghost.worker for ghost in ghosts}, installation, 0.0)
    return [ghost.name for ghost in ghosts]


def has_members(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def end(child: Child, grace_seconds: float) -> TreeEnd:
    return anyio.run(lambda: end_tree(child, grace_seconds=grace_seconds))


def test_a_child_that_leaves_when_asked_is_asked_once_and_not_killed() -> None:
    """R23: a second TERM would mean something else."""
    count = "import signal, sys, time; n = []; signal.signal(signal.SIGTERM, lambda *_: n.append(1)); print('up', flush=True)"
    child = up(f"{count}\nwhile not n: time.sleep(0.01)\ntime.sleep(0.6); sys.exit(len(n))")
    assert end(child, grace_seconds=20) == TreeEnd(0, ())
    assert child.returncode == 1


def test_a_deaf_child_is_killed_after_the_grace() -> None:
    """R22: TERM, grace, KILL; the exit status says which it was."""
    child = up(DEAF)
    started = time.monotonic()
    assert end(child, grace_seconds=0.3) == TreeEnd(1, ())
    assert 0.3 <= time.monotonic() - started < 5
    assert child.returncode == -signal.SIGKILL


def test_a_stopped_child_hears_the_term() -> None:
    """It is waked, or it would sleep through its grace."""
    child = up("import time; print('up', flush=True); time.sleep(600)")
    os.kill(child.pid, signal.SIGSTOP)
    assert end(child, grace_seconds=20) == TreeEnd(0, ())
    assert child.returncode == -signal.SIGTERM


def test_everything_under_a_child_ends_with_it() -> None:
    """P6: also what left its session, and is no child of ours."""
    here = str(uuid.uuid4())
    child = up(FAMILY, lines=4, env=tags(here))
    assert end(child, grace_seconds=0.1) == TreeEnd(4, ())
    assert left_of(here) == []


def test_a_child_that_is_replaced_when_asked_leaves_none() -> None:
    """P6: its heir has lost its parent, and is found by the session; it is asked too, and its heir killed at last."""
    here = str(uuid.uuid4())
    child = up(HEIR, env=tags(here))
    assert end(child, grace_seconds=0.3).unkillable == ()
    assert child.returncode == 0
    assert left_of(here) == []


def test_who_forks_faster_than_anybody_looks_is_ended() -> None:
    """P6: a process that lives a millisecond and leaves another is met by the signal to the group."""
    child = up(HOPPER)
    try:
        assert end(child, grace_seconds=0.0).unkillable == ()
        wait_until(lambda: not has_members(child.pid), 5, "it hops on")
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)


def test_a_process_whose_first_thread_has_ended_is_ended() -> None:
    """It shows as a zombie while the others run on."""
    headless = """
import ctypes, os, threading, time
threading.Thread(target=lambda: (print("up", flush=True), time.sleep(600))).start()
ctypes.CDLL("libc.so.6").syscall({"x86_64": 60, "aarch64": 93}[os.uname().machine], 0)
"""
    child = up(headless)
    wait_until(lambda: ") Z " in Path(f"/proc/{child.pid}/stat").read_text())
    assert end(child, grace_seconds=5) == TreeEnd(0, ())
    assert child.returncode == -signal.SIGTERM


def test_a_child_can_be_killed_without_an_event_loop() -> None:
    """For emergencies: no grace, everything under it, reaped."""
    here = str(uuid.uuid4())
    child = up(FAMILY, lines=4, env=tags(here))
    assert kill_tree_now(child) == TreeEnd(4, ())
    assert child.returncode == -signal.SIGKILL
    assert left_of(here) == []


def test_to_end_a_child_that_has_ended_signals_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """T16: its pid, and the number of its session, may be another's by now."""
    child = python("pass")
    anyio.run(child.wait)
    monkeypatch.setattr(ending, "table", lambda: pytest.fail("looked for somebody"))
    assert end(child, grace_seconds=5) == TreeEnd(0, ())


def test_a_cancelled_end_is_a_kill() -> None:
    """R35: whoever is cancelled while it waits for the grace leaves nothing behind, not even a zombie."""
    child = up(DEAF)

    async def cancelled() -> None:
        with anyio.move_on_after(0.1):
            await end_tree(child, grace_seconds=600)

    anyio.run(cancelled)
    assert child.returncode == -signal.SIGKILL
    assert not Path(f"/proc/{child.pid}").exists()


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


def test_an_unkillable_child_is_reported_and_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """R36: the wait is bounded."""
    child = up(DEAF)
    with monkeypatch.context() as deaf:
        deaf.setattr(ending, "_UNKILLABLE_SECONDS", 0.2)
        deaf.setattr(ending, "send", lambda *_: False)
        deaf.setattr(os, "killpg", lambda *_: None)
        assert end(child, grace_seconds=0.1) == TreeEnd(0, (child.pid,))
        assert kill_tree_now(child) == TreeEnd(0, (child.pid,))
    assert kill_tree_now(child) == TreeEnd(1, ())


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.EPERM, errno.EMFILE])
def test_where_pidfds_are_refused_signals_are_sent_all_the_same(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Old kernels, sandboxes, and no descriptor left."""

    def refuse(pid: int) -> int:
        raise OSError(number, os.strerror(number))

    child = up(FAMILY, lines=4)
    monkeypatch.setattr(os, "pidfd_open", refuse)
    assert end(child, grace_seconds=0.0) == TreeEnd(4, ())


def test_where_there_is_no_proc_the_group_is_ended() -> None:
    """Another system: what can be told is ended, strays are not looked for, nothing breaks."""
    code = """
from stoker.hygiene import ending, ghosts, identity, kinship
for module in (ending, kinship):
    module.proc_is_ours = lambda: False
for module in (ending, identity, kinship, ghosts):
    module.look = lambda pid: None
deaf = "import os, signal, time; os.fork(); signal.signal(15, signal.SIG_IGN); print(1, flush=True); time.sleep(600)"
child = spawn([sys.executable, "-c", deaf], env={}, stdout=subprocess.PIPE, die_with_parent=True)
child.popen.stdout.readline(), child.popen.stdout.readline()
async def end(): return await end_tree(child, grace_seconds=0.1)
print(anyio.run(end), child.returncode, child.popen.stdout.read())
print(descendants(os.getpid()), end_strays(), ghosts.find_ghosts("", lambda _: set()), identity.mine().boot_id, identity.of(1))
"""
    assert scene(code) == "TreeEnd(killed=1, unkillable=()) -9 b''\n[] 0 []  None"


@pytest.mark.parametrize(
    "pid",
    [0, 1, -1, -os.getpgrp(), os.getpid(), 2**22 + 1],
    ids=["nobody", "the first", "everybody", "our group", "ourselves", "no such"],
)
def test_no_signal_goes_to_everybody_a_group_the_first_process_or_ourselves(pid: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """T16: whatever a number from outside says."""
    monkeypatch.setattr(os, "kill", lambda *_: pytest.fail("a signal was sent"))
    monkeypatch.setattr(signal, "pidfd_send_signal", lambda *_: pytest.fail("a signal was sent"))
    assert not kinship.send(pid, signal.SIGKILL, lambda: True)


def test_who_is_no_longer_meant_gets_no_signal() -> None:
    """T16: the question is asked when the process can no longer be exchanged."""
    child = python("input()", stdin=-1)
    assert not kinship.send(child.pid, signal.SIGKILL, lambda: False)
    child.popen.communicate(b"\n")
    assert child.returncode == 0


def test_a_zombie_is_not_counted_as_living() -> None:
    """Nothing is waited for that is dead."""
    child = python("pass")
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert child.pid not in descendants(os.getpid())
    assert child.poll() == 0


def test_a_daemonised_grandchild_is_found_by_its_subreaper(tmp_path: Path) -> None:
    """P6: double fork and a session of its own do not hide it; whoever is somebody's is let be, with all below it."""
    code = f"""
print(become_subreaper())
below = "import os, time; os.fork(); print(1, flush=True); time.sleep(600)"
kept = spawn([sys.executable, "-c", below], env=dict(os.environ), stdout=subprocess.PIPE, die_with_parent=True)
kept.popen.stdout.readline(), kept.popen.stdout.readline()
own = subprocess.Popen([sys.executable, "-c", below], stdout=subprocess.PIPE)
own.stdout.readline(), own.stdout.readline()
spawn([sys.executable, "-c", {DAEMON!r}, sys.argv[1]], env=dict(os.environ), die_with_parent=True).popen.wait()
while not os.path.exists(sys.argv[1]) or not open(sys.argv[1]).read(): time.sleep(0.01)
print(end_strays([own.pid]), kept.poll(), own.poll(), len(descendants(os.getpid())))
print(end_strays(), kept.poll(), len(descendants(os.getpid())))
kept = kill_tree_now(kept)
print(end_strays(), descendants(os.getpid()))
"""
    assert scene(code, str(tmp_path / "pid")).splitlines() == ["True", "1 None None 4", "2 None 2", "0 []"]
    assert not is_alive(int((tmp_path / "pid").read_text()))


def test_exit_statuses_survive_the_reaping_of_strays() -> None:
    """R37, R38: 200 short children, strays among them, SIGCHLD ignored at the start: every status is right, no zombie."""
    code = """
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
become_subreaper()
stray = "trap '' TERM; (setsid sh -c 'sleep 60 & exit 9' &) ; exit $0"
wrong = 0
for n in range(0, 200, 4):
    start = lambda m: spawn(["/bin/sh", "-c", stray, str(m)], env={"PATH": "/usr/bin:/bin"}, die_with_parent=True)
    four = [start(m) for m in range(n, n + 4)]
    end_strays()
    wrong += [anyio.run(child.wait) for child in four] != list(range(n, n + 4))
    end_strays()
try: left = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT) or "a living child"
except ChildProcessError: left = None
print(wrong, left, len(os.listdir("/proc/self/fd")) < 20)
"""
    assert scene(code) == "0 None True"


def test_a_stray_that_cannot_be_killed_is_waited_for_once() -> None:
    """R36: bounded, and not again at every worker's end."""
    code = """
from stoker.hygiene import ending
become_subreaper()
subprocess.Popen(["/bin/sh", "-c", "sleep 60 & exit 0"]).wait()
real, ending.send, ending._UNKILLABLE_SECONDS = ending.send, lambda *_: False, 0.5
took = [time.monotonic()]
for _ in range(2):
    end_strays()
    took.append(time.monotonic())
print(took[1] - took[0] >= 0.5, took[2] - took[1] < 0.25)
real(descendants(os.getpid())[0], signal.SIGKILL, lambda: True)
"""
    assert scene(code) == "True True"


@pytest.mark.parametrize("how", ["end_strays()", "kill_tree_now(child)"])
def test_an_embedded_server_that_was_started_below_stays_up(how: str, tmp_path: Path) -> None:
    """A stoker command inside a handler may have started it; it is shared, and outlives whoever was first to need it."""
    data = tmp_path / ".stoker" / "data"
    data.mkdir(parents=True)
    code = f"""
become_subreaper()
named = "import os, time; os.setsid(); open('/proc/self/comm', 'w').write('postgres'); os.fork(); print(1, flush=True); "
server = ["-c", named + "time.sleep(600)"]
starts = "import subprocess, sys, time; [subprocess.Popen(sys.argv[3:], cwd=d) for d in sys.argv[1:3]]; time.sleep(600)"
command = [sys.executable, "-c", starts, sys.argv[1], "/", sys.executable, *server]
child = spawn(command, env={{}}, stdout=-1, die_with_parent=True)
for _ in range(4): child.popen.stdout.readline()
if "strays" in {how!r}: child.popen.kill(), child.popen.wait()
{how}
left = descendants(os.getpid())
print([os.path.basename(os.readlink(f"/proc/{{pid}}/cwd")) for pid in left])
for pid in left: os.kill(pid, signal.SIGKILL)
"""
    assert scene(code, str(data)) == "['data', 'data']"
