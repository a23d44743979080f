"""Users' loops: each in a process of its own, bounded with all that it starts, noticed by nobody else."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.end_to_end.project import Project, is_alive
from tests.waiting import wait_until

from stoker.worker.loop import LoopOrders

CONFIG = """
[limits]
fires_per_day = "none"
[worker]
grace = "500ms"
[modes.quick]
handler = "jobs:quick"
"""
JOBS = '''

def mark(word):
    with open(HERE / word, "a") as file:
        file.write(f"{os.getpid()}\\n")


def digest():
    """Five were done."""
    mark("digest")
    return 5


async def digest_async():
    mark("async")


def broken():
    mark("broken")
    print("about to fail with", os.environ.get("API_TOKEN", "no token"))
    raise ValueError("no such " + os.environ.get("API_TOKEN", "thing"))


def wrong():
    return "five"


def liar():
    os.write(int(sys.argv[3]), b'{"error": 5}')
    os._exit(0)


def deadly():
    mark("deadly")
    os.kill(os.getpid(), signal.SIGKILL)


def stuck():
    """Deaf to SIGTERM, with a child in a session of its own that has lost its parent, and is deaf too."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    detach()
    mark("stuck")
    while True:
        time.sleep(60)


def careless():
    """It leaves a process behind."""
    detach()
    mark("careless")


def detach():
    if os.fork():
        return
    os.setsid()
    if os.fork():
        os._exit(0)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    mark("detached")
    while True:
        time.sleep(60)


def endless():
    mark("endless")
    while True:
        pass


def hasty():
    mark("hasty")
    os._exit(0)


def chatty():
    """A gigabyte, in one line."""
    part = b"x" * (1 << 20)
    for _ in range(1024):
        os.write(1, part)
    mark("chatty")
    return 1


def bomb():
    """A child each ten milliseconds, each in a session of its own."""
    mark("bomb")
    while True:
        detach()
        time.sleep(0.01)


def environment():
    import json
    (HERE / "environment").write_text(json.dumps(dict(os.environ)))
'''


def loop(name: str, *lines: str, interval: str = "1h") -> str:
    what = "" if any(line.startswith(("handler", "command")) for line in lines) else f'handler = "jobs:{name}"\n'
    return "\n".join(["[[loops]]", f'name = "{name}"', f'interval = "{interval}"', *lines]) + f"\n{what}"


def write(project: Project, *loops: str) -> None:
    project.write(CONFIG + "".join(loops), JOBS)


def pids(project: Project, word: str) -> list[int]:
    """Who left a mark."""
    path = project.folder / word
    return [int(line) for line in path.read_text().split()] if path.exists() else []


def told(project: Project, event: str, **facts: object) -> list[dict[str, object]]:
    """The log lines of an event with these facts."""
    lines = [json.loads(line) for line in (project.folder / "stderr").read_text().splitlines() if line.startswith("{")]
    return [one for one in lines if one["event"] == event and facts.items() <= one.items()]


def of_loops(project: Project, name: str) -> list[int]:
    """Every living process of the project's folder that carries the tag of this loop."""
    mark, found = f"STOKER_LOOP={name}".encode(), []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                here = (entry / "cwd").readlink() == project.folder
                if here and mark in (entry / "environ").read_bytes().split(b"\0") and is_alive(int(entry.name)):
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


def ended(*groups: list[int]) -> Callable[[], bool]:
    return lambda: not any(is_alive(pid) for group in groups for pid in group)


def test_loops_run_at_their_interval_each_in_a_process_of_its_own_and_beat(project: Project) -> None:
    """A handler, an async one, a program; one heartbeat row each, which says how late the next may be."""
    write(
        project,
        loop("digest", 'time_limit = "1m"', interval="300ms"),
        loop("later", 'handler = "jobs:digest_async"'),
        loop("program", 'command = ["sh", "-c", "echo $$ >> program"]', interval="300ms"),
    )
    standing = project.start("run", STOKER_LOG_LEVEL="debug")
    wait_until(lambda: len(pids(project, "digest")) > 2 and len(pids(project, "program")) > 2, 30, "passes")
    wait_until(lambda: pids(project, "async"), 30, "the async one")
    assert len(set(pids(project, "digest"))) == len(pids(project, "digest"))
    assert standing.pid not in pids(project, "digest")
    wait_until(lambda: told(project, "loop", loop="loop digest", done=5), 10, "the count")
    rows = project.query("select component, count(*), max(expected_seconds) from stoker.heartbeats group by 1 order by 1")
    assert [(name, count) for name, count, _ in rows] == [
        ("loop digest", 1),
        ("loop later", 1),
        ("loop program", 1),
        ("sweep", 1),
    ]
    assert 180 < rows[0][2] < 200
    standing.terminate()
    assert standing.wait(timeout=20) == 0


def test_a_core_loop_that_fails_ends_the_runtime_with_its_own_exit_code(project: Project) -> None:
    """70, with its name; its neighbours are ended in order."""
    write(project, loop("broken", 'tier = "core"'), loop("stuck"))
    standing = project.start("run")
    assert standing.wait(timeout=30) == 70
    assert "loop broken failed: LoopError" in (project.folder / "stderr").read_text()
    assert told(project, "loop failed", reason="ValueError: no such thing", core=True)
    assert of_loops(project, "stuck") == []


SLOW = """
import time
from stoker.hygiene import process
from stoker.worker import loop
tie, end_strays = process._Bond.tie, loop.end_strays
process._Bond.tie = lambda bond, pid: (time.sleep(1), tie(bond, pid))
loop.end_strays = lambda: (open("ending", "w").close(), time.sleep(1), end_strays())[2]
loop.main()
"""


@pytest.mark.parametrize("name", ["stuck", "careless"])
def test_who_keeps_a_loop_and_is_told_to_stop_at_its_very_beginning_or_end_leaves_nothing(project: Project, name: str) -> None:
    """The handler runs, and its keeper does not listen yet; or it is over, and what it left is being ended."""
    write(project, loop(name))
    orders = LoopOrders(name, str(project.folder), handler=f"jobs:{name}", grace=0.1)
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.DEVNULL}
    command = [sys.executable, "-P", "-c", SLOW]
    with subprocess.Popen(command, cwd=project.folder, env=project.environment(), **pipes) as keeper:  # type: ignore[call-overload]
        assert keeper.stdin is not None
        keeper.stdin.write(orders.to_json().encode() + b"\n")
        keeper.stdin.flush()
        wait_until(lambda: pids(project, name), 10, "the handler")
        if name == "careless":
            wait_until(lambda: (project.folder / "ending").exists(), 10, "its end")
        keeper.terminate()
        assert keeper.wait(timeout=20) == 0
    assert of_loops(project, name) == []


def test_a_sidecar_that_fails_is_logged_and_tried_again_later_and_its_neighbours_never_notice(project: Project) -> None:
    """An exception, a killed process, an exit status, a result that is none: all are named. The pauses grow."""
    write(
        project,
        loop("broken", interval="10ms"),
        loop("deadly", interval="10ms"),
        loop("wrong"),
        loop("liar"),
        loop("lost", 'handler = "nowhere:run"'),
        loop("seven", 'command = ["sh", "-c", "exit 7"]'),
        loop("absent", 'command = ["no-such-program"]'),
        loop("digest", interval="200ms"),
    )
    standing = project.start("run")
    wait_until(lambda: len(pids(project, "broken")) >= 3 and len(pids(project, "deadly")) >= 2, 60, "three tries")
    wait_until(lambda: len({str(one["loop"]) for one in told(project, "loop failed")}) == 7, 30, "all failures")
    reasons = {str(one["loop"]).removeprefix("loop "): one["reason"] for one in told(project, "loop failed")}
    assert reasons == {
        "broken": "ValueError: no such thing",
        "deadly": "its process ended without a word: SIGKILL",
        "wrong": "TypeError: jobs:wrong must return how much it did, or None, not str",
        "liar": "what it said is no verdict: exit status 0",
        "lost": "ModuleNotFoundError: No module named 'nowhere'",
        "seven": "exit status 7",
        "absent": "it cannot be started: No such file or directory",
    }
    assert len(pids(project, "digest")) > len(pids(project, "broken"))
    assert standing.poll() is None
    standing.terminate()
    assert standing.wait(timeout=20) == 0


def test_a_time_limit_holds_for_all_that_a_loop_started(project: Project) -> None:
    """Deaf processes, and those that left its session and lost their parents, are ended by force."""
    write(project, loop("stuck", 'time_limit = "1s"'))
    standing = project.start("run")
    wait_until(lambda: told(project, "loop failed"), 30, "the limit")
    assert told(project, "loop failed", reason="it was ended after 1 s, its time limit")
    assert len(pids(project, "stuck")) == 1
    assert len(pids(project, "detached")) == 1
    assert ended(pids(project, "stuck"), pids(project, "detached"))()
    standing.terminate()
    assert standing.wait(timeout=20) == 0


def test_what_a_loop_leaves_behind_is_ended_with_its_pass(project: Project) -> None:
    """It has not failed, but it is told of."""
    write(project, loop("careless"))
    standing = project.start("run")
    wait_until(lambda: told(project, "loop left processes", killed=1), 30, "the word")
    assert ended(pids(project, "detached"))()
    assert told(project, "loop failed") == []
    standing.terminate()
    assert standing.wait(timeout=20) == 0


def test_hostile_loops_are_named_by_status_hold_up_nobody_and_end_when_they_are_told(project: Project) -> None:
    """One that never returns, one that leaves by the back door, a gigabyte of words, children without end, no count."""
    names = ("endless", "hasty", "wrong", "stuck", "bomb")
    write(project, *(loop(name, 'time_limit = "2s"') for name in names), loop("chatty"), loop("digest", interval="200ms"))
    standing = project.start("run")
    wait_until(lambda: len({str(one["loop"]) for one in told(project, "loop failed")}) == len(names), 60, "all failures")
    wait_until(lambda: pids(project, "chatty"), 60, "a gigabyte")
    before = len(pids(project, "digest"))
    wait_until(lambda: len(pids(project, "digest")) > before, 20, "a neighbour that goes on")
    status = project.run("status").stdout
    for name, why in {
        "endless": "it was ended after 2 s, its time limit",
        "stuck": "it was ended after 2 s, its time limit",
        "bomb": "it was ended after 2 s, its time limit",
        "hasty": "its process ended without a word: exit status 0",
        "wrong": "TypeError: jobs:wrong must return how much it did, or None, not str",
    }.items():
        assert f"loop {name}: failed " in status
        assert f"last: {why}" in status
    assert "loop chatty" not in status
    assert "loop digest" not in status
    wait_until(lambda: any(of_loops(project, name) for name in ("endless", "stuck", "bomb")), 60, "one of them runs again")
    began = time.monotonic()
    standing.terminate()
    assert standing.wait(timeout=20) == 0
    assert time.monotonic() - began < 10
    wait_until(lambda: not any(of_loops(project, name) for name in names), 10, "nobody is left")
    assert not any(is_alive(pid) for pid in pids(project, "detached"))
    missing = {line.partition(":")[0] for line in project.json("status")["troubles"]}
    assert {f"loop {name}" for name in names} <= missing


def test_when_what_stands_is_told_to_stop_or_killed_its_loops_end_too(project: Project) -> None:
    """SIGTERM waits no longer than the grace; SIGKILL leaves nobody behind either."""
    write(project, loop("stuck"))
    for number, status in ((signal.SIGTERM, 0), (signal.SIGKILL, -signal.SIGKILL)):
        (project.folder / "stuck").unlink(missing_ok=True)
        standing = project.start("run")
        wait_until(lambda: pids(project, "stuck"), 30, "the loop")
        standing.send_signal(number)
        assert standing.wait(timeout=10) == status
        wait_until(ended(pids(project, "stuck"), pids(project, "detached")), 15, "the end of all")
        wait_until(lambda: of_loops(project, "stuck") == [], 15, "nobody with its tag")


def test_a_loop_gets_no_more_of_the_environment_than_it_lists_and_its_secrets_are_masked(project: Project) -> None:
    """No database credentials; what it says and why it failed is told without the values it lists."""
    write(project, loop("environment"), loop("broken", 'env = ["API_TOKEN"]'))
    standing = project.start("run", API_TOKEN="hunter2-sesame", OTHER="x", STOKER_DATABASE_URL=project.url)
    wait_until((project.folder / "environment").exists, 30, "the environment")
    seen = json.loads((project.folder / "environment").read_text())
    assert seen["STOKER_LOOP"] == "environment"
    assert {"API_TOKEN", "OTHER", "STOKER_DATABASE_URL"} & set(seen) == set()
    wait_until(lambda: told(project, "loop failed"), 30, "the failure")
    assert told(project, "loop failed", reason="ValueError: no such [env.API_TOKEN]")
    assert "hunter2" not in (project.folder / "stderr").read_text()
    assert "about to fail with [env.API_TOKEN]" in str(told(project, "loop said", loop="loop broken"))
    standing.terminate()
    assert standing.wait(timeout=20) == 0


def test_a_fire_does_a_loop_once_and_its_note_says_what_came_of_it(project: Project) -> None:
    """Only those that belong to fires; one that fails stops nothing."""
    write(project, loop("digest", "at_fire = true"), loop("broken", "at_fire = true"), loop("deadly"))
    project.enqueue("quick", 1)
    fire = project.run("fire")
    assert fire.returncode == 0
    assert "## Loops" in fire.stdout
    assert "- digest: 5 done, in " in fire.stdout
    assert "- broken: failed, ValueError: no such thing, in " in fire.stdout
    facts = project.facts()
    found = {one["name"]: (one["count"], one["error"]) for one in facts["loops"]}
    assert found == {"digest": (5, None), "broken": (None, "ValueError: no such thing")}
    assert "loops" not in facts["hygiene"]
    assert len(pids(project, "digest")) == len(project.ledger()) == 1
    assert pids(project, "deadly") == []


def test_a_fire_that_nobody_was_let_into_does_no_loop(project: Project) -> None:
    """Refused, it has no hygiene of its own."""
    write(project, loop("digest", "at_fire = true"))
    project.run("gate", "close", "--reason", "repairs")
    project.run("fire")
    assert pids(project, "digest") == []


def test_a_fire_outlives_its_lease_in_a_loop_and_ends_in_order_when_it_is_told(project: Project) -> None:
    """Its lease is renewed meanwhile, so that no sweep takes it for dead; a signal ends the loop, and the note says so."""
    write(project, loop("stuck", "at_fire = true"), '[hygiene]\nfire_lease = "1s"\n')
    project.enqueue("quick", 1)
    fire = project.start("fire")
    wait_until(lambda: pids(project, "stuck"), 30, "the loop")
    for _ in range(4):
        ((until,),) = project.query("select lease_until from stoker.fires")
        wait_until(lambda: project.query("select lease_until > %s from stoker.fires", until) == [(True,)], 3, "a renewal")  # noqa: B023
        assert project.query("select lease_until > now() from stoker.fires") == [(True,)]
    fire.send_signal(signal.SIGTERM)
    assert fire.wait(timeout=20) == 128 + signal.SIGTERM
    facts = project.facts()
    assert [(one["name"], one["error"]) for one in facts["loops"]] == [("stuck", "it was told to stop")]
    assert facts["ended"] == "interrupted"
    assert ended(pids(project, "stuck"), pids(project, "detached"))()


def test_a_loop_that_nobody_keeps_is_what_makes_a_project_unready(project: Project) -> None:
    """stoker ready names it."""
    write(project, loop("digest"))
    project.run("fire")
    unready = project.run("ready")
    assert (unready.returncode, unready.stdout.splitlines()[1]) == (1, "- loop digest: no stoker run has kept it so far")
    standing = project.start("run")
    wait_until(lambda: project.run("ready").returncode == 0, 30, "ready")
    os.kill(standing.pid, signal.SIGTERM)
    assert standing.wait(timeout=20) == 0
    assert project.run("ready").returncode == 1


def test_a_fire_for_one_thing_alone_does_no_loop(project: Project) -> None:
    """One task by hand, or somebody's cron job, is not the project's fire."""
    write(project, loop("digest", "at_fire = true"))
    (task,) = project.enqueue("quick", 1)
    assert project.run("tasks", "run", str(task), "--inline").returncode == 0
    assert project.run("wrap", "job", "--", "true").returncode == 0
    assert project.query("select count(*) from stoker.fires where state = 'closed'") == [(2,)]
    assert pids(project, "digest") == []
