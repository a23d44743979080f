"""Steps that are not done twice, progress that is seen while a task runs, and who may write either."""

from typing import Any

import psycopg
import pytest
from tests.end_to_end.project import Project
from tests.sql.oracle import check
from tests.waiting import wait_until

JOBS = """
import asyncio, threading


def stepping(task):
    note(task, "start")
    results = []
    for name in task.payload["steps"]:
        def work(name=name):
            note(task, name)
            return {"name": name, "attempt": task.attempt}
        results.append(task.step(name, work))
        if name == task.payload.get("die") and task.attempt == 1:
            os.kill(os.getpid(), signal.SIGKILL)
    return {"results": results, "done": task.steps_done}


async def stepping_async(task):
    note(task, "start")
    results = []
    for name in task.payload["steps"]:
        async def work(name=name):
            note(task, name)
            await asyncio.sleep(0.01)
            return {"name": name, "attempt": task.attempt}
        results.append(await task.step_async(name, work))
        if name == task.payload.get("fail") and task.attempt == 1:
            raise ConnectionError("once")
    return {"results": results, "done": task.steps_done}


def wrong(task):
    match task.payload:
        case "large": task.step("a", lambda: "x" * (64 << 10))
        case "unstorable": task.step("a", lambda: object())
        case "": task.step("", lambda: None)
        case "surrogate": task.step("file \\udce4", lambda: None)


def threads(task):
    made = [threading.Thread(target=task.step, args=(f"s{n}", lambda n=n: "x" * 20_000 + str(n))) for n in range(8)]
    for thread in made: thread.start()
    for thread in made: thread.join()
    return sorted(task.steps_done)


def telling(task):
    for n in range(100_000):
        task.progress(n / 100_000, f"word {n}")
    time.sleep(0.1)
    task.progress(0.5, "half\\0way " + "ü" * 500)
    gated(task)


def outliving(task):
    note(task, "start")
    while not (HERE / "gate").exists():
        time.sleep(0.01)
    try:
        task.step("late", lambda: 1)
    except Exception as error:
        note(task, type(error).__name__)
        raise
    note(task, "kept")
"""

CONFIG = """
[limits]
max_pool = 2
task_cap = "none"
fires_per_day = "none"
[worker]
linger = "300ms"
[modes.stepping]
handler = "jobs:stepping"
max_attempts = 3
backoff_base = "10ms"
[modes.declared]
handler = "jobs:stepping"
max_attempts = 1
steps = ["a", "b", "c", "d"]
[modes.alone]
handler = "jobs:stepping_async"
backoff_base = "10ms"
[modes.many]
handler = "jobs:stepping_async"
concurrency = 8
backoff_base = "10ms"
[modes.wrong]
handler = "jobs:wrong"
max_attempts = 1
[modes.threads]
handler = "jobs:threads"
[modes.telling]
handler = "jobs:telling"
[modes.outliving]
handler = "jobs:outliving"
max_attempts = 5
"""


@pytest.fixture
def steps(project: Project) -> Project:
    """The project with handlers that have steps."""
    project.write(CONFIG, JOBS)
    return project


def result(project: Project, task: int) -> Any:
    ((found,),) = project.query("select result from stoker.outcomes where lo = %s", task)
    return found


def test_a_step_that_is_finished_is_not_done_again_after_its_runner_was_killed(steps: Project) -> None:
    """P3: it is stored before step() returns, and the next attempt gets its result."""
    (task,) = steps.enqueue("stepping", {"steps": ["a", "b", "c"], "die": "b"})
    assert steps.run("fire").returncode == 0
    assert [len(steps.ledger(name)) for name in "abc"] == [1, 1, 1]
    assert [one["attempt"] for one in result(steps, task)["results"]] == [1, 1, 2]
    assert result(steps, task)["done"] == ["a", "b", "c"]
    rows = steps.query("select name, attempt, result->>'name' from stoker.steps order by finished_at")
    assert rows == [("a", 1, "a"), ("b", 1, "b"), ("c", 2, "c")]
    shown = steps.json("tasks", "show", str(task))["steps_finished"]
    assert [(one["step"], one["attempt"], one["result"]["name"]) for one in shown] == rows
    assert '{"name": "c", "attempt": 2}' in steps.run("tasks", "show", str(task)).stdout


@pytest.mark.parametrize("mode", ["alone", "many"])
def test_async_steps_of_tasks_that_run_side_by_side_are_kept_apart(steps: Project, mode: str) -> None:
    """Each task has its own, and goes on where it was."""
    tasks = steps.enqueue(mode, *({"steps": ["a", "b"], "fail": "a"} for _ in range(12)))
    assert steps.run("fire").returncode == 0
    assert [[one["attempt"] for one in result(steps, task)["results"]] for task in tasks] == [[1, 2]] * 12
    assert sorted(row[1] for row in steps.ledger("a")) == sorted(row[1] for row in steps.ledger("b")) == tasks


def test_steps_of_threads_do_not_mix(steps: Project) -> None:
    """Questions longer than a pipe writes in one go come whole."""
    (task,) = steps.enqueue("threads", None)
    steps.run("fire")
    assert result(steps, task) == [f"s{n}" for n in range(8)]
    found = "select name, length(result #>> '{}'), right(result #>> '{}', 1) from stoker.steps order by 1"
    assert steps.query(found) == [(f"s{n}", 20_001, str(n)) for n in range(8)]


def test_declared_steps_make_progress_and_refuse_others(steps: Project) -> None:
    """Finished through declared; the error names what is declared."""
    (task,) = steps.enqueue("declared", {"steps": ["a", "b", "c", "x"]})
    steps.run("fire")
    assert steps.query("select fraction::text, words from stoker.progress") == [("0.75", "c")]
    ((words,),) = steps.query("select error from stoker.failed where id = %s", task)
    assert "has no step 'x'" in words
    assert "a, b, c, d" in words


@pytest.mark.parametrize(
    ("payload", "words"),
    [
        ("large", "above the limit of 65,536"),
        ("unstorable", "not JSON"),
        ("", "a step needs a"),
        ("surrogate", "without NUL and lone"),
    ],
)
def test_a_step_that_cannot_be_kept_says_why(steps: Project, payload: str, words: str) -> None:
    """And is not taken for finished."""
    (task,) = steps.enqueue("wrong", payload)
    steps.run("fire")
    ((kind, said),) = steps.query("select error_kind, error from stoker.failed where id = %s", task)
    assert kind == "StepError"
    assert words in said
    assert steps.query("select count(*) from stoker.steps") == [(0,)]


def test_progress_is_seen_while_the_task_runs_and_written_about_once_a_second(steps: Project) -> None:
    """The latest stands, bounded and storable, however much is said."""
    (task,) = steps.enqueue("telling", None)
    steps.start("fire")
    steps.wait_for_starts(1)
    seen = "select progress::text, progress_text, status from stoker.task_queue where id = %s"
    wait_until(lambda: steps.query(seen, task)[0][0] == "0.5", 10, "progress")
    assert steps.query(seen, task)[0][2] == "in_progress"
    assert steps.query(seen, task)[0][1].startswith("half\ufffdway ü")
    ((updates,),) = steps.query("select n_tup_upd + n_tup_ins from pg_stat_user_tables where relname = 'progress'")
    assert updates < 10
    steps.open_gate()


def test_a_step_of_a_claim_that_was_released_is_refused_and_its_worker_leaves(steps: Project) -> None:
    """P2: nothing is stored under a token that does not stand; who claims the task next finds no step of a stranger."""
    (task,) = steps.enqueue("outliving", None)
    steps.start("fire")
    steps.wait_for_starts(1)
    ((worker,),) = steps.query("select worker::text from stoker.claims")
    steps.query("delete from stoker.claims returning token")
    steps.open_gate()
    wait_until(lambda: steps.ledger("StepError"), 10, "the refusal")
    gone = "select exit_reason from stoker.workers where worker = %s"
    wait_until(lambda: steps.query(gone, worker) == [("fenced",)], 20, "the worker's leaving")
    assert steps.query("select count(*) from stoker.steps where id = %s", task) == [(0,)]
    assert steps.ledger("kept") == []


def test_a_slow_database_delays_a_step_and_loses_nothing(steps: Project) -> None:
    """The keeper answers when it can: here the step's table is locked for a while."""
    (task,) = steps.enqueue("outliving", None)
    steps.start("fire")
    steps.wait_for_starts(1)
    with psycopg.connect(steps.url) as connection:
        connection.execute("lock table stoker.steps in access exclusive mode")
        steps.open_gate()
        waiting = "select count(*) from pg_stat_activity where wait_event_type = 'Lock'"
        wait_until(lambda: steps.query(waiting) != [(0,)], 10, "a step that waits")
        assert steps.ledger("kept") == []
    wait_until(lambda: steps.ledger("kept"), 20, "the step")
    wait_until(lambda: steps.query("select status from stoker.task_queue where id = %s", task) == [("done",)], 20, "the end")
    with psycopg.connect(steps.url) as connection:
        check(connection)
