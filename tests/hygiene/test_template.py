"""Processes forked from a template: they are ours, stand apart from it, and are found by what they carry.

Each scene runs in a process of its own, since it becomes a subreaper.
"""

import subprocess
import textwrap

import pytest
from tests.end_to_end.project import is_alive
from tests.hygiene.scenes import HEAD as IMPORTS
from tests.hygiene.scenes import python, scene
from tests.waiting import wait_until

from stoker.hygiene.process import STATUS_LOST

HEAD = '''
from stoker.hygiene.ending import owned
from stoker.hygiene.template import Template, TemplateError, UNKNOWN
TAGS = {"STOKER_WORKER": "1" * 36, "STOKER_INSTALLATION": "2" * 36}
SERVE = """
import os, sys, time
from stoker.hygiene.template import serve
PATCH
def work():
    asked = sys.stdin.readline()
    if asked == "who\\\\n":
        shown = open("/proc/self/environ").read().split(chr(0))
        mine = [word for word in shown if word.startswith("STOKER_")]
        print(os.getppid(), os.getsid(0) == os.getpid(), *sorted(mine), *sorted(map(int, os.listdir("/proc/self/fd")))[:-1],
              file=sys.stderr, flush=True)
    sys.stdin.readline()
    sys.exit(7)
serve(int(sys.argv[1]), work)
"""
def start(patch="pass", **env):
    return Template.start([sys.executable, "-P", "-c", SERVE.replace("PATCH", patch)], {**os.environ, **env}, TAGS)
def ask(child, word="who"):
    child.stdin.write(f"{word}\\n".encode())
    return child.stderr.readline().decode().split()
def end(child):
    child.stdin.close()
    return anyio.run(child.wait)
'''


def staged(code: str) -> str:
    return scene(HEAD + textwrap.dedent(code))


def test_a_forked_process_is_our_child_tagged_and_holds_nothing_of_the_template() -> None:
    """P6, T09: its parent, its session, its tags in /proc, three descriptors; its exit status is told."""
    told = staged("""
        template = start()
        child = template.fork(TAGS)
        print(int(ask(child, "who")[0]) == os.getpid(), *ask(child, "") or "", end(child))
        again = template.fork(TAGS)
        parent, *told = ask(again)
        print(*told, end(again))
        template.close()
    """)
    first, second = told.splitlines()
    assert first.split() == ["True", "7"]
    assert second.split() == ["True", f"STOKER_INSTALLATION={'2' * 36}", f"STOKER_WORKER={'1' * 36}", "0", "1", "2", "7"]


@pytest.mark.parametrize("how", ["template.close()", "os.kill(template._child.pid, 9), template._child.popen.wait()"])
def test_what_was_forked_outlives_the_template_from_its_first_moment(how: str) -> None:
    """A template that ends takes nobody with it, not even who has only just been born."""
    slow = "real = os.setsid; os.setsid = lambda: (time.sleep(0.2), real())"  # holds the door open that must be shut
    told = staged(f"""
        template = start({slow!r})
        child = template.fork(TAGS)
        {how}
        print(ask(child)[1], end(child))
    """)
    assert told == "True 7"


def test_a_template_that_is_gone_says_so() -> None:
    """Whoever asks starts its process the longer way."""
    told = staged("""
        template = start()
        os.kill(template._child.pid, 9)
        template._child.popen.wait()
        try: template.fork(TAGS)
        except TemplateError as error: print(len(os.listdir("/proc/self/fd")), bool(str(error)))
        template.close()
        print(len(os.listdir("/proc/self/fd")))
    """)
    before, after = told.splitlines()
    assert before.endswith("True")
    assert int(after) == 4


@pytest.mark.parametrize("patch", ["os.setsid = None", "os.fork = None", "os.environ.pop('STOKER_WORKER')", "sys.exit(1)"])
def test_a_template_that_cannot_fork_says_so_and_leaves_nobody(patch: str) -> None:
    """A process that nobody could find by its tag does not begin to work."""
    told = staged(f"""
        template = start({patch!r})
        try: template.fork(TAGS)
        except TemplateError: print("refused")
        template.close()
        end_strays()
        try: os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG)
        except ChildProcessError: print("childless")
    """)
    assert told.split() == ["refused", "childless"]


def test_a_closed_template_leaves_no_process_and_no_descriptor() -> None:
    """P6: also when it is closed while it still imports."""
    told = staged("""
        before = os.listdir("/proc/self/fd")
        start().close()
        template = start()
        child = template.fork(TAGS)
        end(child)
        child.stderr.close()
        template.close()
        del child, template
        print(end_strays(), os.listdir("/proc/self/fd") == before, list(owned))
    """)
    assert told.split() == ["0", "True", "[]"]


def test_a_template_dies_with_its_owner_and_those_it_forked_see_the_end_of_their_input() -> None:
    """P6: the owner is killed while the template is frozen."""
    code = HEAD + textwrap.dedent("""
        template = start()
        child = template.fork(TAGS)
        ask(child)
        os.kill(template._child.pid, signal.SIGSTOP)
        print(template._child.pid, child.pid, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    """)
    owner = python(IMPORTS + code, stdout=subprocess.PIPE)
    said = owner.popen.communicate(timeout=30)[0]
    pids = [int(word) for word in said.split()]
    assert len(pids) == 2
    wait_until(lambda: not any(is_alive(pid) for pid in pids), 10, "somebody outlived the owner")


def test_no_template_where_orphans_would_not_come_to_us() -> None:
    """On a system without subreapers the longer way is taken from the start."""
    told = staged("""
        from stoker.hygiene import template as module
        module.become_subreaper = lambda: False
        try: start()
        except TemplateError: print("refused", len(os.listdir("/proc/self/fd")))
    """)
    assert told == "refused 4"


def test_the_exit_status_of_a_forked_process_that_somebody_else_reaped_is_lost_not_zero() -> None:
    told = staged("""
        template = start()
        child = template.fork(TAGS)
        child.stdin.close()
        os.waitpid(child.pid, 0)
        print(child.poll())
        template.close()
    """)
    assert told == str(STATUS_LOST)
