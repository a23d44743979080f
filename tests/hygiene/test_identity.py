"""A process is never a bare pid, and gone is only who is proven gone."""

import os
import subprocess
import sys
import timeit
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.waiting import wait_until

from stoker.hygiene import identity
from stoker.hygiene.identity import Identity, look, mine, of, proven_gone

NAMED = "open('/proc/self/comm', 'w').write('a) R (b'); "
HEADLESS = """
import ctypes, threading
threading.Thread(target=input).start()
ctypes.CDLL("libc.so.6").syscall({"x86_64": 60, "aarch64": 93}[__import__("os").uname().machine], 0)
"""


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    """A living process that is not ours by identity."""
    yield from _started("input()")


def _started(code: str) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE)
    yield process
    process.kill()
    process.communicate()


def identified(process: subprocess.Popen[bytes]) -> Identity:
    found = of(process.pid)
    assert found is not None
    return found


def await_stat(process: subprocess.Popen[bytes], text: str) -> None:
    wait_until(lambda: text in Path(f"/proc/{process.pid}/stat").read_text(), message=f"{text!r} does not show")


def test_a_process_is_told_from_the_next_one_with_its_pid(sleeper: subprocess.Popen[bytes]) -> None:
    """R20, T16: the same pid with another start time is another process."""
    living = identified(sleeper)
    assert not proven_gone(living)
    assert proven_gone(replace(living, start_ticks=living.start_ticks - 1))


def test_who_has_ended_is_gone_even_before_it_was_reaped(sleeper: subprocess.Popen[bytes]) -> None:
    """A zombie holds its pid, and does nothing any more."""
    living = identified(sleeper)
    sleeper.kill()
    os.waitid(os.P_PID, sleeper.pid, os.WEXITED | os.WNOWAIT)
    assert of(sleeper.pid) == living
    assert proven_gone(living)
    sleeper.wait()
    assert of(sleeper.pid) is None
    assert proven_gone(living)


@pytest.mark.parametrize(
    "elsewhere",
    [
        {"host": "elsewhere"},
        {"boot_id": "0" * 36},
        {"boot_id": ""},
        {"pid_namespace": "pid:[1]"},
        {"pid_namespace": ""},
        {"pid": 0},
        {"pid": -1},
        {"pid": 2**70},
        {"pid": "7"},
        {"start_ticks": "7"},
        {"start_ticks": None},
    ],
    ids=str,
)
def test_what_cannot_be_told_is_not_proven(elsewhere: dict[str, Any]) -> None:
    """R20: another host, boot or namespace (containers share host names), and garbage, prove nothing."""
    nobody = replace(mine(), pid=2**22 + 1)
    assert proven_gone(nobody)
    assert not proven_gone(replace(nobody, **elsewhere))


def test_a_process_that_proc_hides_is_not_proven_gone(
    sleeper: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With hidepid, another user's living process has no entry in /proc: the kernel is asked."""
    living = identified(sleeper)
    monkeypatch.setattr(identity, "look", lambda pid: None)
    assert not proven_gone(living)
    assert proven_gone(replace(living, pid=2**22 + 1))


def test_a_foreign_proc_proves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new pid namespace under the old /proc: the pids there are not ours."""
    nobody = replace(mine(), pid=2**22 + 1)
    monkeypatch.setattr(identity.os, "readlink", lambda path: "1" if path == "/proc/self" else nobody.pid_namespace)
    identity._forget()
    try:
        assert (mine().boot_id, of(os.getpid())) == ("", None)
        assert not proven_gone(nobody)
        assert not proven_gone(replace(mine(), pid=2**22 + 1))
    finally:
        monkeypatch.undo()
        identity._forget()


def test_the_name_of_a_process_does_not_matter() -> None:
    """It may hold spaces and parentheses."""
    for odd in _started(NAMED + "input()"):
        await_stat(odd, "(a) R (b)")
        stat = look(odd.pid)
        assert stat is not None
        assert (stat.parent, stat.group, stat.session, stat.is_living) == (os.getpid(), os.getpgrp(), os.getsid(0), True)
        assert not proven_gone(identified(odd))


def test_a_process_lives_on_without_its_first_thread() -> None:
    """It looks like a zombie and is none."""
    for headless in _started(HEADLESS):
        await_stat(headless, ") Z ")
        living = identified(headless)
        assert not proven_gone(living)
        headless.kill()
        headless.wait()
        assert proven_gone(living)


def test_a_forked_process_is_not_its_parent() -> None:
    """What was remembered before a fork is not believed after it."""
    code = """
import os, time
from stoker.hygiene.identity import mine, of
parent = mine()
ended = time.monotonic() + 0.05
while time.monotonic() < ended: pass
if os.fork() == 0:
    own = mine()
    os._exit(own.pid != os.getpid() or own != of(os.getpid()) or own.start_ticks <= parent.start_ticks)
raise SystemExit(os.waitstatus_to_exitcode(os.wait()[1]))
"""
    assert subprocess.run([sys.executable, "-c", code], timeout=30, check=False).returncode == 0


def test_to_look_takes_less_than_a_tenth_of_a_millisecond() -> None:
    """The sweep asks it of every worker."""
    me = mine()
    assert min(timeit.repeat(lambda: proven_gone(me), number=50, repeat=20)) / 50 < 100e-6
    assert min(timeit.repeat(mine, number=50, repeat=20)) / 50 < 10e-6
