"""What a handler says became of its task: outcomes as values, exceptions by class, and a program's lines of JSON."""

import json
import sys
from typing import Any

import psycopg
import pytest
from tests.end_to_end.project import Project
from tests.sql.oracle import check
from tests.waiting import wait_until

JOBS = """
from datetime import UTC, datetime, timedelta
from stoker.worker.task import Done, Fail, FollowUp, Hold, Retry, Snooze


class Flaky(ConnectionError):
    pass


def say(task):
    note(task, "start")
    match task.payload:
        case {"retry": after}: return Retry(after) if task.attempt == 1 else "again"
        case {"always": after}: return Retry(after, "not there yet")
        case {"snooze": "until"}: return Snooze(until=datetime.now(UTC) + timedelta(hours=2))
        case {"snooze": seconds}: return Snooze(until=timedelta(seconds=seconds))
        case {"fail_with": words}: return Fail(ValueError(words))
        case {"retry_with": words}: return Retry(0, KeyError(words))
        case {"fail": reason}: return Fail(reason)
        case {"hold": question}: return Hold(question)
        case {"raise": name}: raise {"flaky": Flaky, "value": ValueError, "key": KeyError}[name]("no")
        case {"then": rows}: return Done({"n": len(rows)}, then=[FollowUp(**row) for row in rows])
        case {"done": result}: return Done(result)


async def say_async(task):
    return say(task)
"""

CONFIG = """
[limits]
max_pool = 4
task_cap = "none"
fires_per_day = "none"
[worker]
linger = "300ms"
[modes.say]
handler = "jobs:say"
max_attempts = 2
backoff_base = "10ms"
retry_on = ["ConnectionError", "ValueError"]
fail_on = ["builtins.ValueError"]
[modes.side]
handler = "jobs:say"
max_attempts = 2
side_effect = true
retry_on = ["ConnectionError"]
[modes.quiet]
handler = "jobs:say"
max_attempts = 2
errors = "withheld"
[modes.many]
handler = "jobs:say_async"
concurrency = 4
[modes.plain]
handler = "jobs:plain"
version = 3
"""


@pytest.fixture
def says(project: Project) -> Project:
    """The project with a handler that returns what its payload says."""
    project.write(CONFIG, JOBS)
    return project


def stands(project: Project, task: int) -> tuple[Any, ...]:
    """Its state, attempts spent, kind of error, and its words."""
    ((*row,),) = project.query(
        "select status, attempts, error_kind, coalesce(error_detail, question) from stoker.task_queue where id = %s", task
    )
    return tuple(row)


@pytest.mark.parametrize("mode", ["say", "side", "many"])
def test_a_returned_outcome_is_obeyed_also_for_a_side_effect(says: Project, mode: str) -> None:
    """P3: who says what happened is believed; snooze and hold spend no attempt."""
    payloads: list[Any] = [{"retry": 0.01}, {"snooze": 3600}, {"snooze": "until"}, {"fail": "never"}, {"hold": "which one?"}]
    again, soon, until, failed, held = says.enqueue(
        mode,
        *payloads,
    )
    done, empty = says.enqueue(mode, {"done": [1]}, {"done": None})
    assert says.run("fire").returncode == 0
    assert stands(says, again) == ("done", 2, None, None)
    assert stands(says, soon) == stands(says, until) == ("queued", 0, None, None)
    assert stands(says, failed) == ("failed", 1, "Fail", "[payload.fail]")
    assert stands(says, held) == ("held", 0, None, "which one?")
    assert stands(says, done)[0] == stands(says, empty)[0] == "done"
    assert says.query("select result from stoker.outcomes where lo = %s", done) == [([1],)]
    waits = "select round(extract(epoch from available_at - now()) / 600) from stoker.later where lo = %s"
    assert [says.query(waits, task) for task in (soon, until)] == [[(6,)], [(12,)]]
    verdicts = says.query("select id, verdict from stoker.attempts order by id")
    assert verdicts == [(again, "retry"), (soon, "snooze"), (until, "snooze"), (failed, "failed"), (held, "held")]


def test_a_retry_is_bounded_by_the_attempts(says: Project) -> None:
    """max_attempts holds whatever a handler asks for."""
    (task,) = says.enqueue("say", {"always": 0.01})
    says.run("fire")
    assert stands(says, task) == ("failed", 2, "attempts spent", "not there yet")
    assert len(says.ledger()) == 2


def test_exceptions_are_sorted_by_the_modes_lists(says: Project) -> None:
    """A list names a class or one it derives from, bare or dotted; fail_on wins; in neither list: tried again."""
    flaky, value, key = says.enqueue("say", {"raise": "flaky"}, {"raise": "value"}, {"raise": "key"})
    safe, unsafe = says.enqueue("side", {"raise": "flaky"}, {"raise": "key"})
    says.run("fire")
    found = [stands(says, task)[:3] for task in (flaky, value, key, unsafe)]
    assert found == [("failed", 2, "Flaky"), ("failed", 1, "ValueError"), ("failed", 2, "KeyError"), ("unknown", 1, "KeyError")]
    assert stands(says, safe)[:2] == ("queued", 1)


def test_what_follows_is_enqueued_with_the_settlement(says: Project) -> None:
    """P1: in its transaction, with every column; the version is the configured one, and a key is free again by then."""
    rows: list[dict[str, Any]] = [
        {"mode": "plain", "payload": {"n": 1}, "priority": 7, "tags": ["a"], "key": "k"},
        {"mode": "plain", "payload": None, "key": "k"},
        {"mode": "say", "payload": {"done": 3}, "delay": 3600, "max_attempts": 9, "lane_key": "line"},
        {"mode": "say", "payload": {"done": 4}, "needs_approval": True},
    ]
    (task,) = says.enqueue("say", {"then": rows})
    says.run("fire")
    found = says.query(
        """select mode, payload::text, priority, version, tags, key,
                  (select t.max_attempts from stoker.tasks t where t.id = q.id), lane_key, held_for, status
           from stoker.task_queue q where id > %s""",
        task,
    )
    assert sorted(found) == [
        ("plain", '{"n":1}', 7, 3, ["a"], "k", None, None, None, "queued"),
        ("say", '{"done":3}', 0, 1, None, None, 9, "line", None, "queued"),
        ("say", '{"done":4}', 0, 1, None, None, None, None, "approval", "held"),
    ]
    assert says.query("select result from stoker.outcomes where lo = %s", task) == [({"n": 4},)]
    with psycopg.connect(says.url) as connection:
        check(connection)


def test_a_task_may_be_followed_by_one_with_its_own_key(says: Project) -> None:
    """The parent is over when what follows is enqueued."""
    says.run("migrate")
    payload = {"then": [{"mode": "plain", "key": "chain"}, {"mode": "say", "key": "chain", "payload": {"done": "second"}}]}
    says.query("select stoker.enqueue('say', %s, key => 'chain')", json.dumps(payload))
    says.run("fire")
    assert says.query("select result from stoker.outcomes order by lo desc limit 1") == [("second",)]
    assert says.query("select count(*) from stoker.tasks where mode = 'plain'") == [(1,)]


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ({"mode": "plian"}, "did you mean plain"),
        ({"mode": "plain", "tags": "abc"}, "tags"),
        ({"mode": "plain", "priority": 2**40}, "priority"),
        ({"mode": "plain", "payload": "x" * 2000}, "limit"),
    ],
)
def test_a_follow_up_that_would_be_refused_fails_the_task_at_once(says: Project, row: dict[str, Any], why: str) -> None:
    """P11: it neither breaks the worker, nor does a task stand where nobody takes it."""
    (task,) = says.enqueue("say", {"then": [row]})
    says.run("fire", STOKER_QUEUE_PAYLOAD_LIMIT="1KiB")
    assert stands(says, task)[:3] == ("failed", 1, "follow-up refused")
    assert why in stands(says, task)[3]
    assert says.query("select count(*) from stoker.tasks") == [(1,)]


@pytest.mark.parametrize("mode", ["say", "many", "side", "quiet"])
@pytest.mark.parametrize("way", ["fail", "fail_with", "retry_with", "then"])
def test_a_reason_is_stored_as_an_error_is(says: Project, mode: str, way: str) -> None:
    """P9: the payload's own words are taken out of it, or all of it; an exception is a reason too, and is obeyed."""
    (task,) = says.enqueue(mode, {way: [{"mode": "jane@doe.example"}] if way == "then" else "jane@doe.example"})
    says.run("fire")
    status, attempts, kind, words = stands(says, task)
    assert (status, attempts) == ("failed", {"many": 5}.get(mode, 2) if way == "retry_with" else 1)
    assert kind == {"then": "follow-up refused", "retry_with": "attempts spent"}.get(way, "Fail")
    assert words.startswith("(error text withheld" if mode == "quiet" else ("unknown mode" if way == "then" else ""))
    assert "jane" not in words + says.run("note").stdout + says.run("tasks", "ls").stdout


PROGRAM = """
import json, sys, time
said = json.load(sys.stdin)
for line in said["lines"]:
    print(json.dumps(line), flush=True)
time.sleep(said.get("sleep", 0))
sys.exit(said["exit"])
"""


def test_a_program_may_ask_for_a_snooze_or_for_a_person(project: Project) -> None:
    """With exit status 0 or 75; with any other the status is the verdict; what is malformed is words."""
    project.write(f'[worker]\nlinger = "100ms"\n[modes.p]\ncommand = ["{sys.executable}", "-S", "p.py"]\nmax_attempts = 1')
    (project.folder / "p.py").write_text(PROGRAM)
    asks: list[tuple[list[Any], int]] = [
        ([{"snooze": 3600}], 0),
        ([{"snooze": 3600}], 75),
        ([{"snooze": 3600}], 3),
        ([{"hold": "which?"}], 0),
        ([{"snooze": "soon"}, {"hold": 1}, {"progress": 2}, {"hold": "x", "log": 1}], 0),
    ]
    tasks = project.enqueue("p", *({"lines": lines, "exit": status} for lines, status in asks))
    assert project.run("fire").returncode == 0
    assert [stands(project, task)[:2] for task in tasks] == [
        ("queued", 0),
        ("queued", 0),
        ("failed", 1),
        ("held", 0),
        ("done", 1),
    ]
    assert stands(project, tasks[3])[3] == "which?"
    ((words,),) = project.query("select output from stoker.outputs where id = %s", tasks[4])
    assert len(words.splitlines()) == 4


def test_the_progress_of_a_program_is_seen_while_it_runs(project: Project) -> None:
    """A line of JSON is enough."""
    project.write(f'[modes.p]\ncommand = ["{sys.executable}", "-S", "p.py"]')
    (project.folder / "p.py").write_text(PROGRAM)
    (task,) = project.enqueue("p", {"lines": [{"progress": 0.1}, {"progress": 0.4, "text": "nearly"}], "exit": 0, "sleep": 600})
    project.start("fire")
    seen = "select progress::text, progress_text, status from stoker.task_queue where id = %s"
    wait_until(lambda: project.query(seen, task) == [("0.4", "nearly", "in_progress")], 20, "progress")


def test_an_answer_reaches_the_handler_that_asked(project: Project) -> None:
    """A person's word, kept with the task: the handler asks once and goes on with what was answered."""
    jobs = """
def asking(task):
    from stoker.worker.task import Hold
    return Hold("which colour?") if task.answer is None else {"colour": task.answer, "steps": task.steps_done}
"""
    project.write('[modes.asking]\nhandler = "jobs:asking"\n', jobs)
    (task,) = project.enqueue("asking", 1)
    assert project.run("fire").returncode == 0
    assert project.json("tasks", "show", str(task))["status"] == "held"
    assert project.run("tasks", "resume", str(task), "--answer", "the blue one").returncode == 0
    assert project.run("fire").returncode == 0
    shown = project.json("tasks", "show", str(task))
    assert (shown["status"], shown["result"]) == ("done", {"colour": "the blue one", "steps": []})
