"""Whether what is configured would be done: asked from the command line, and over HTTP."""

import json
import os
import re
import signal
import socket
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import psycopg
from tests.end_to_end.project import Project
from tests.waiting import wait_until

CONFIG = """
[limits]
fires_per_day = "none"
[modes.quick]
handler = "jobs:quick"
"""
SCHEDULE = """
[[schedules]]
name = "often"
every = "1s"
"""
HTTP = '[runtime]\nhttp = "127.0.0.1:0"\n'


def ready(project: Project) -> dict[str, Any]:
    """What ``stoker ready`` says; its exit code says the same."""
    done = project.run("ready", "--json")
    facts: dict[str, Any] = json.loads(done.stdout)
    assert done.returncode == (0 if facts["ready"] else 1), done.stderr
    return facts


def port_of(project: Project) -> int:
    """Where the standing process answers, by its own word."""

    def found() -> list[str]:
        lines = (project.folder / "stderr").read_text().splitlines()
        return [json.loads(line)["address"] for line in lines if '"event": "probes"' in line]

    wait_until(found, 30, "the probes to be answered")
    return int(found()[-1].rpartition(":")[2])


def get(port: int, path: str) -> tuple[int, dict[str, Any]]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=20) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


def said(port: int, request: bytes) -> bytes:
    """Everything that is answered to some bytes."""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as sent:
        sent.sendall(request)
        found = b""
        try:
            while more := sent.recv(4096):
                found += more
        except ConnectionError:
            pass
        return found


def test_a_project_becomes_ready_by_a_standing_process_and_unready_when_it_ends(project: Project) -> None:
    """Between fires no worker lives: what stands is what counts, and words say what is missing."""
    project.write(CONFIG + SCHEDULE)
    assert ready(project)["missing"] == ["no stoker run or cron beat so far: nothing starts fires"]
    standing = project.start("run")
    wait_until(lambda: ready(project)["ready"], 30, "ready")
    assert {one["component"] for one in ready(project)["processes"]} == {"schedule", "sweep"}
    standing.terminate()
    assert standing.wait(timeout=20) == 0
    (missing,) = ready(project)["missing"]
    assert re.fullmatch(r"no stoker run or cron beat since [-0-9: ]+ \(.*:\d+\): nothing starts fires", missing)
    shown = project.run("ready")
    assert shown.returncode == 1
    assert shown.stdout.startswith(f"not ready\n- {missing}\n")


def test_cron_makes_a_project_ready_as_often_as_it_comes(project: Project) -> None:
    """And one who never comes again is missed."""
    project.write(CONFIG)
    assert project.run("fire").returncode == 0
    assert ready(project)["ready"]
    project.write(CONFIG + SCHEDULE)
    (missing,) = ready(project)["missing"]
    assert missing.startswith("schedules often: no stoker run, and no stoker fire --due from cron, so far")
    assert project.run("fire", "--due").returncode == 0
    assert ready(project)["ready"]
    with psycopg.connect(project.url, autocommit=True) as connection:
        connection.execute("update stoker.heartbeats set at = at - interval '200 s' where component = 'due'")
    assert not ready(project)["ready"]


def test_cron_that_comes_seldom_is_not_missed_before_its_time(project: Project) -> None:
    """It may be as late again as it was, twice: it is known by its own pace."""
    project.write(CONFIG + SCHEDULE)
    project.run("fire", "--due")
    with psycopg.connect(project.url, autocommit=True) as connection:
        connection.execute("update stoker.heartbeats set at = at - interval '15 minutes'")
        project.run("fire", "--due")
        connection.execute("update stoker.heartbeats set at = at - interval '20 minutes'")
        assert ready(project)["ready"]
        connection.execute("update stoker.heartbeats set at = at - interval '20 minutes'")
    assert not ready(project)["ready"]


def test_cron_for_one_schedule_is_known_by_when_that_is_due(project: Project) -> None:
    """One line a schedule, at its own times: each proves its own schedule and modes, until its next due time and grace."""
    both = '[modes.plain]\nhandler = "jobs:plain"\n[[schedules]]\nname = "day"\ncron = "0 7 * * *"\nmodes = ["plain"]\n'
    project.write(CONFIG + both + SCHEDULE + 'modes = ["quick"]\ngrace = "1h"\n')
    project.run("fire", "--schedule", "often")
    missing = ready(project)["missing"]
    assert missing[0].startswith("schedules day: no stoker run, and no stoker fire --due from cron, since ")
    assert missing[1].startswith("mode plain: nobody living starts it")
    project.run("fire", "--schedule", "day")
    assert ready(project)["ready"]
    ((seconds,),) = project.query("select expected_seconds from stoker.heartbeats where component = 'due day'")
    assert 600 <= seconds <= 86400 + 600
    project.query("update stoker.heartbeats set at = at - interval '2 hours' where component = 'due often' returning 1")
    assert ready(project)["missing"][0].startswith("schedules often: ")


def test_a_mode_that_this_host_leaves_to_another_is_missed_until_that_one_stands(project: Project) -> None:
    """[worker] modes."""
    both = CONFIG + SCHEDULE + '[modes.plain]\nhandler = "jobs:plain"\n'
    project.write(both + '[worker]\nmodes = ["quick"]\n')
    project.run("fire", "--due")
    (missing,) = ready(project)["missing"]
    assert missing.startswith("mode plain: nobody living starts it")
    project.write(both)
    project.run("fire", "--due")
    assert ready(project)["ready"]


def test_a_handler_that_could_not_be_imported_is_named_until_it_could(project: Project) -> None:
    """By the last worker of the mode; the command says the error, HTTP only its kind."""
    project.write(CONFIG + HTTP + '[modes.torn]\nhandler = "torn:run"\n')
    (project.folder / "torn.py").write_text("import hunter2_is_the_word\n")
    project.enqueue("torn", 1)
    project.run("fire")
    (missing,) = ready(project)["missing"]
    assert missing.startswith("mode torn: its handler could not be imported in fire 1: ModuleNotFoundError: No module named")
    standing = project.start("run")
    port = port_of(project)
    status, facts = get(port, "/readyz")
    assert status == 503
    assert facts["missing"] == ["mode torn: its handler could not be imported in fire 1: ModuleNotFoundError"]
    (project.folder / "torn.py").write_text("def run(task):\n    return None\n")
    project.run("fire")
    wait_until(lambda: get(port, "/readyz")[0] == 200, 10, "ready")
    standing.terminate()
    assert standing.wait(timeout=20) == 0


def test_probes_answer_while_all_goes_on_and_say_when_a_loop_stands_still(project: Project) -> None:
    """healthz is about this process, readyz about what is configured; nothing else is answered."""
    project.write(CONFIG + SCHEDULE + HTTP)
    standing = project.start("run")
    port = port_of(project)
    wait_until(lambda: get(port, "/healthz")[1]["loops"] == ["schedule", "sweep"], 20, "the loops")
    assert get(port, "/healthz") == (200, {"healthy": True, "loops": ["schedule", "sweep"], "late": {}})
    wait_until(lambda: get(port, "/readyz?verbose")[0] == 200, 20, "ready")
    project.run("gate", "close", "--reason", "hunter2", "--by", "ann")
    wait_until(lambda: get(port, "/readyz")[1]["remarks"] == ["the gate is closed"], 10, "the remark")
    assert ready(project)["remarks"] == ["the gate is closed by ann: hunter2"]
    assert get(port, "/metrics")[0] == 404
    assert said(port, b"POST /readyz HTTP/1.1\r\nContent-Length: 0\r\n\r\n").startswith(b"HTTP/1.1 405 ")
    assert said(port, b"GET /readyz\r\n\r\n").startswith(b"HTTP/1.1 400 ")
    assert said(port, b"GET /healthz HTTP/1.1\r\n" + b"X: " + b"y" * 5000).startswith(b"HTTP/1.1 400 ")
    assert project.url not in json.dumps(get(port, "/readyz")[1])
    standing.terminate()
    assert standing.wait(timeout=20) == 0


def test_who_sends_slowly_is_cut_off_and_keeps_nobody_else_out(project: Project) -> None:
    """Sixteen at a time, five seconds each."""
    project.write(CONFIG + HTTP)
    project.start("run")
    port = port_of(project)
    slow = [socket.create_connection(("127.0.0.1", port), timeout=20) for _ in range(16)]
    started = time.monotonic()
    for one in slow:
        one.sendall(b"GET /healthz HT")
    wait_until(lambda: said(port, b"GET /healthz HTTP/1.1\r\n\r\n") == b"", 3, "one too many to be cut off")
    assert {one.recv(100) for one in slow} == {b""}
    assert 3 < time.monotonic() - started < 10
    for one in slow:
        one.close()
    assert get(port, "/healthz")[0] == 200


def test_a_database_that_does_not_answer_is_no_ill_health_and_no_readiness(project: Project, cluster: Any) -> None:
    """To start the process again would help nobody; and the answer comes in time."""
    project.write(CONFIG + SCHEDULE + HTTP)
    project.start("run")
    port = port_of(project)
    wait_until(lambda: get(port, "/readyz")[0] == 200, 20, "ready")
    cluster.stop()
    try:
        wait_until(lambda: get(port, "/readyz")[1]["missing"] == ["the database cannot be reached"], 20, "unready")
        assert get(port, "/healthz")[0] == 200
        away = project.run("ready")
        assert away.returncode == 1
        assert "the database cannot be reached" in away.stdout
    finally:
        cluster.start()
    wait_until(lambda: get(port, "/readyz")[0] == 200, 60, "ready again")


def test_a_server_that_hangs_is_answered_for_in_time(project: Project, cluster: Any) -> None:
    """Whoever asks gets 503 after four seconds, again and again, and health is another question."""
    project.write(CONFIG + SCHEDULE + HTTP)
    project.start("run")
    port = port_of(project)
    wait_until(lambda: get(port, "/readyz")[0] == 200, 20, "ready")
    servers = processes_of(cluster)
    for pid in servers:
        os.kill(pid, signal.SIGSTOP)
    try:
        wait_until(lambda: get(port, "/readyz")[0] == 503, 10, "unready")
        for _ in range(2):
            started = time.monotonic()
            assert get(port, "/readyz")[1]["missing"] == ["the database does not answer"]
            assert time.monotonic() - started < 5
        assert get(port, "/healthz")[0] == 200
    finally:
        for pid in servers:
            os.kill(pid, signal.SIGCONT)
    wait_until(lambda: get(port, "/readyz")[0] == 200, 60, "ready again")


def test_an_address_that_is_taken_keeps_nobody_from_work_and_is_taken_when_it_is_free(project: Project) -> None:
    """A process that is replaced may still hold it."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        project.write(CONFIG + SCHEDULE + f'[runtime]\nhttp = "127.0.0.1:{port}"\n')
        project.start("run")
        wait_until(lambda: "probes are not answered" in (project.folder / "stderr").read_text(), 30, "the word")
        wait_until(lambda: project.query("select count(*) from stoker.slots where state = 'ran'")[0][0] > 0, 30, "a fire")
    assert port_of(project) == port
    assert get(port, "/healthz")[0] == 200


def processes_of(cluster: Any) -> list[int]:
    """The server's first process and its children."""
    found = [cluster.pid]
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if int((entry / "stat").read_text().rpartition(")")[2].split()[1]) == cluster.pid:
                    found.append(int(entry.name))
            except OSError:
                continue
    return found
