"""Modes whose runner is the user's own program; and what any runner, program or handler, finds in its environment."""

import json
import os
import sys
import uuid
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.end_to_end.project import Project

PROGRAM = """
import json, os, sys
said = json.load(sys.stdin)
with open("seen", "a") as seen:
    seen.write(json.dumps({"payload": said, "environ": dict(os.environ), "arguments": sys.argv[1:]}) + "\\n")
attempt = int(os.environ["STOKER_ATTEMPT"])
match said:
    case {"exit": code, "from": first}:
        print("trying", file=sys.stderr)
        sys.exit(code if attempt < first else 0)
    case {"say": text}:
        sys.stdout.write(text)
    case {"large": size}:
        print(json.dumps({"result": "x" * size}))
    case {"bytes": numbers}:
        os.write(1, bytes(numbers))
        os.write(2, bytes(numbers))
    case {"deaf": _}:
        os.close(0)
"""

CONFIG = f"""
[limits]
max_pool = 2
task_cap = "none"
fires_per_day = "none"
[worker]
linger = "300ms"
output_limit = "2KiB"
result_limit = "1KiB"
[modes.program]
command = ["{sys.executable}", "-S", "program.py", "--flag", "; touch injected", "$(touch injected)"]
max_attempts = 2
backoff_base = "10ms"
label = "status"
env = ["API_TOKEN"]
[modes.side]
command = ["{sys.executable}", "-S", "program.py"]
side_effect = true
max_attempts = 2
backoff_base = "10ms"
"""

BASE = {"PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", "USER", "LOGNAME"}
IDENTITY = {"STOKER_WORKER", "STOKER_INSTALLATION", "STOKER_FIRE", "STOKER_MODE"}
OF_TASK = {"STOKER_TASK", "STOKER_ATTEMPT", "STOKER_DELIVERY_ID"}


@pytest.fixture
def programs(project: Project) -> Project:
    """The project with the program in it."""
    project.write(CONFIG)
    (project.folder / "program.py").write_text(PROGRAM)
    return project


def seen(project: Project) -> list[dict[str, Any]]:
    """What each run of the program found."""
    return [json.loads(line) for line in (project.folder / "seen").read_text().splitlines()]


def test_a_program_gets_the_payload_and_who_it_is_and_no_shell_reads_its_arguments(programs: Project) -> None:
    """T01: payload as JSON on standard input, identity in variables; the delivery id is the same in every attempt."""
    payload = {"exit": 75, "from": 2, "text": "ü'\"; touch injected\n$(touch injected)"}
    (task,) = programs.enqueue("program", payload)
    (other,) = programs.enqueue("program", [1])
    assert programs.run("fire").returncode == 0
    runs = [run for run in seen(programs) if run["environ"]["STOKER_TASK"] == str(task)]
    assert [run["payload"] for run in runs] == [payload] * 2
    assert [run["environ"]["STOKER_ATTEMPT"] for run in runs] == ["1", "2"]
    assert {run["environ"]["STOKER_MODE"] for run in runs} == {"program"}
    (delivery,) = {run["environ"]["STOKER_DELIVERY_ID"] for run in runs}
    assert str(uuid.UUID(delivery)) == delivery
    assert delivery not in {r["environ"]["STOKER_DELIVERY_ID"] for r in seen(programs) if r["payload"] == [1]}
    assert runs[0]["arguments"] == ["--flag", "; touch injected", "$(touch injected)"]
    assert not (programs.folder / "injected").exists()
    assert programs.query("select id, status, attempts from stoker.task_queue order by id") == [
        (task, "done", 2),
        (other, "done", 1),
    ]


def test_a_program_s_exit_status_is_the_verdict(programs: Project) -> None:
    """0 done, 75 try again, 65 and 78 failed for good, any other a failed attempt; of a side effect: not known."""
    last = {"from": 9}
    codes = [0, 65, 78, 3, 75]
    ids = programs.enqueue("program", *({"exit": code, **last} for code in codes))
    side = programs.enqueue("side", *({"exit": code, **last} for code in codes), {"exit": 75, "from": 2})
    assert programs.run("fire").returncode == 0
    stands = "select status, attempts, error_kind from stoker.task_queue where mode = %s order by id"
    assert programs.query(stands, "program") == [
        ("done", 1, None),
        ("failed", 1, "exit status 65"),
        ("failed", 1, "exit status 78"),
        ("failed", 2, "exit status 3"),
        ("failed", 2, "exit status 75"),
    ]
    assert programs.query(stands, "side") == [
        ("done", 1, None),
        ("failed", 1, "exit status 65"),
        ("failed", 1, "exit status 78"),
        ("unknown", 1, "exit status 3"),
        ("failed", 2, "exit status 75"),
        ("done", 2, None),
    ]
    assert programs.query("select error from stoker.failed where id = %s", ids[3]) == [("trying",)]
    assert programs.run("logs", str(side[3])).stdout == "--- attempt 1\ntrying\n"


def test_the_last_result_line_is_the_result_and_every_other_line_is_output(programs: Project) -> None:
    """A line with the key result, also one without a newline at the end; other JSON and other words are kept as output."""
    lines = 'words\n{"other": 1}\n{"result": 1}\n[1]\n{"result": {"status": "new", "n": 2}}'
    (task, silent) = programs.enqueue("program", {"say": lines}, {"say": ""})
    facts = programs.json("fire")
    assert facts["modes"][0]["tally"] == {"new": 1}
    stands = dict(programs.query("select id, result from stoker.task_queue"))
    assert stands == {task: {"status": "new", "n": 2}, silent: None}
    assert programs.run("logs", str(task)).stdout == '--- attempt 1\nwords\n{"other": 1}\n[1]\n'


def test_a_program_s_result_that_cannot_be_kept_fails_its_task_for_good(programs: Project) -> None:
    """R32: too large, NaN, NUL: named, and not run again."""
    spaced = '{ "result" : "' + "x" * 3000 + '" }\n'
    ids = programs.enqueue(
        "program",
        {"large": 1100},
        {"large": 100_000},
        {"say": '{"result": NaN}\n'},
        {"say": '{"result": "a\\u0000b"}\n'},
        {"say": spaced},
    )
    assert programs.run("fire").returncode == 0
    large, not_json = "result too large", "result not JSON"
    assert programs.query("select id, status, attempts, error_kind from stoker.task_queue order by id") == [
        (task, "failed", 1, kind) for task, kind in zip(ids, [large, large, not_json, not_json, large], strict=True)
    ]


def test_a_result_far_above_the_limit_is_told_from_output_however_it_is_written(programs: Project) -> None:
    """A result that is lost must not look like a task that was done without one."""
    ids = programs.enqueue(
        "program",
        {"say": '{ "result" : "' + "x" * 100_000 + '" }\n'},
        {"say": '{"status": "ok", "result": "' + "x" * 100_000 + '"}\n'},
    )
    assert programs.run("fire").returncode == 0
    stands = programs.query("select id, status, error_kind from stoker.task_queue order by id")
    assert stands == [(task, "failed", "result too large") for task in ids]


def test_a_result_line_that_is_not_the_json_it_was_meant_to_be_fails_its_task(programs: Project) -> None:
    """None of them is done without its result; the reason tells what was wrong, and quotes nothing."""
    far = '{"log": "' + "y" * 70_000 + '", "result": "Canary"}'
    texts = ["{'result': 'Canary'}", '{"result": "Canary', '{"result": "Canary\\ud800"}', far]
    raws = [b'{"result": "Canary\0"}', b'{"result": "Canary\xff"}']
    ids = programs.enqueue("program", *({"say": f"{line}\n"} for line in texts), *({"bytes": list(line)} for line in raws))
    good = programs.enqueue("program", {"say": '{"result": 1}\n{"result": 2}\n'}, {"say": '{"result": oops\n{"result": 3}\n'})
    assert programs.run("fire").returncode == 0
    joined = "stoker.task_queue q left join stoker.failed using (id) order by id"
    rows = programs.query(f"select id, status, q.attempts, q.error_kind, error from {joined}")
    kinds = [*["result not JSON"] * 3, "result too large", *["result not JSON"] * 2]
    assert [row[:4] for row in rows[:6]] == [(task, "failed", 1, kind) for task, kind in zip(ids, kinds, strict=True)]
    assert not [row for row in rows if "Canary" in (row[4] or "")]
    assert rows[3][4] == "the line of the result is above the limit of 1,024 bytes (result_limit)"
    assert programs.query("select id, result from stoker.task_queue where status = 'done' order by id") == [
        (good[0], 2),
        (good[1], 3),
    ]


def test_a_program_may_print_anything_and_read_nothing(programs: Project) -> None:
    """R33, R34: bytes that are no text, a flood without a newline, a closed input: kept bounded, exit status still seen."""
    (binary,) = programs.enqueue("program", {"bytes": [0xB2, 0, 10, 0xFF, 0xE2, 0x82]})
    (flood,) = programs.enqueue("program", {"say": "x" * 300_000})
    (deaf,) = programs.enqueue("program", {"deaf": "y" * 300_000})
    assert programs.run("fire").returncode == 0
    assert programs.query("select distinct status from stoker.task_queue") == [("done",)]
    assert "\ufffd" in programs.run("logs", str(binary)).stdout
    text = programs.run("logs", str(flood)).stdout
    assert "bytes cut" in text
    assert len(text) < 2048 + 100
    assert programs.json("logs", str(deaf)) == []


def test_a_program_that_is_not_there_leaves_its_tasks_untouched_and_the_note_says_so(project: Project) -> None:
    """The worker leaves as broken; nothing is charged."""
    project.write('[modes.away]\ncommand = ["no-such-program"]\n[modes.plain_file]\ncommand = ["./jobs.py"]\n')
    project.enqueue("away", 1)
    project.enqueue("plain_file", 1)
    facts = project.json("fire")
    assert facts["workers"]["exits"] == {"broken": 2}
    texts = [need["text"] for need in facts["needs"]]
    assert "program 'no-such-program' is not found or not executable" in texts[0]
    assert "program './jobs.py' is not found or not executable" in texts[1]
    assert project.query("select distinct status, attempts from stoker.task_queue") == [("queued", 0)]


SPY = '''
import json

def spy(task):
    """What a handler can see without trying hard."""
    note(task, "start")
    (HERE / "seen").open("a").write(json.dumps({"environ": dict(os.environ)}) + "\\n")
    while not (HERE / "gate").exists():
        time.sleep(0.01)
'''


def test_a_runner_finds_only_base_names_and_those_its_mode_lists(project: Project) -> None:
    """T08, T09: not the database's URL, nobody's password: not in a runner, nor in environment or arguments of a keeper."""
    project.write(CONFIG + '[modes.spy]\nhandler = "jobs:spy"\nenv = ["API_TOKEN", "UNSET"]\n', SPY)
    (project.folder / "program.py").write_text(PROGRAM)
    project.enqueue("spy", 1)
    project.enqueue("program", 1)
    url, password, hook = project.url, "canary-pg", "canary-hook"
    fire = project.start("fire", API_TOKEN="canary-token", DATABASE_URL=url, PGPASSWORD=password, WEBHOOK=hook)
    project.wait_for_starts(1)
    for pid in project.tagged():
        with suppress(OSError):
            visible = Path(f"/proc/{pid}/environ").read_bytes() + Path(f"/proc/{pid}/cmdline").read_bytes()
            assert b"postgresql://" not in visible
            assert not [secret for secret in (url, password, hook) if secret.encode() in visible]
    project.open_gate()
    assert fire.wait(timeout=30) == 0
    by_mode = {run["environ"]["STOKER_MODE"]: run["environ"] for run in seen(project)}
    for mode, own in {"spy": IDENTITY, "program": IDENTITY | OF_TASK}.items():
        found = by_mode[mode]
        assert own <= set(found) <= BASE | own | {"API_TOKEN"}
        assert found["API_TOKEN"] == "canary-token"
    assert os.environ["PATH"] == by_mode["spy"]["PATH"]
