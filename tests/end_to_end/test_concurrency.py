"""Async handlers, several at a time in one runner."""

import psycopg
from tests.end_to_end.project import Project
from tests.waiting import wait_until

JOBS = '''
import asyncio


async def several(task):
    """As the payload says: wait for the gate, for ever, block the loop, kill the runner, print, or return it."""
    note(task, "start")
    match task.payload:
        case "gate":
            while not (HERE / "gate").exists():
                await asyncio.sleep(0.01)
        case "endless":
            await asyncio.Event().wait()
        case float():
            await asyncio.sleep(task.payload)
        case "thread":
            await asyncio.to_thread(time.sleep, 600)
        case "late":
            asyncio.get_running_loop().call_later(0.2, asyncio.current_task().cancel)
        case "cancel":
            asyncio.current_task().cancel()
        case "stubborn":
            while True:
                try:
                    await asyncio.Event().wait()
                except asyncio.CancelledError:
                    pass
        case "block":
            time.sleep(600)
        case "kill":
            await asyncio.sleep(0.1)
            os.kill(os.getpid(), signal.SIGKILL)
        case "print":
            for part in "one", "two", "three":
                print(task.id, end=" ")
                await asyncio.sleep(0.01)
                print(part)
        case "raise":
            raise ValueError("no")
    note(task, "end")
    return task.payload if task.payload == "result" else None
'''

CONFIG = """
[limits]
max_pool = 1
task_cap = "none"
fires_per_day = "none"
[worker]
grace = "500ms"
linger = "2s"
[modes.several]
handler = "jobs:several"
concurrency = 4
timeout = "1s"
max_attempts = 2
backoff_base = "10ms"
"""


def states(project: Project) -> dict[int, str]:
    return dict(project.query("select id, status || ' ' || attempts from stoker.task_queue"))


def test_as_many_run_at_a_time_as_the_mode_says_and_no_more(project: Project) -> None:
    """Four start before one ends, in one process; the others follow; results are kept."""
    project.write(CONFIG.replace('timeout = "1s"', 'timeout = "1m"'), JOBS)
    ids = project.enqueue("several", *["gate"] * 10, "result")
    fire = project.start("fire")
    project.wait_for_starts(4)
    wait_until(lambda: project.query("select count(*) from stoker.claims") == [(4,)], 10, "four are not claimed")
    assert len(project.ledger()) == 4
    project.open_gate()
    assert fire.wait(timeout=30) == 0
    assert states(project) == dict.fromkeys(ids, "done 1")
    assert project.query("select result #>> '{}' from stoker.outcomes where result is not null") == [("result",)]
    assert len({pid for _, _, _, pid in project.ledger()}) == 1


def test_a_task_that_runs_too_long_is_cancelled_alone(project: Project) -> None:
    """Its neighbours go on in the same process, and are charged nothing for it."""
    project.write(CONFIG, JOBS)
    slow, *others = project.enqueue("several", "endless", *["quick"] * 20)
    assert project.run("fire").returncode == 0
    assert states(project) == {slow: "failed 2"} | dict.fromkeys(others, "done 1")
    assert project.query("select error_kind, error from stoker.failed") == [("timeout", "ran longer than 1 s")]
    assert len({pid for _, _, _, pid in project.ledger()}) == 1


def test_a_task_that_blocks_the_loop_is_ended_from_outside(project: Project) -> None:
    """P1: no handler escapes its limit; what only stood beside it is not charged for it."""
    project.write(CONFIG, JOBS)
    blocker, *others = project.enqueue("several", "block", *["quick"] * 6)
    assert project.run("fire").returncode == 0
    assert states(project) == {blocker: "failed 2"} | dict.fromkeys(others, "done 1")


def test_a_task_that_will_not_be_cancelled_is_ended_and_who_ran_beside_it_is_not_charged(project: Project) -> None:
    """P1: who had time left goes back as it was, though it had started."""
    project.write(CONFIG, JOBS)
    stubborn, *others = project.enqueue("several", "stubborn", *[0.4] * 60)
    assert project.run("fire").returncode == 0
    assert states(project) == {stubborn: "failed 2"} | dict.fromkeys(others, "done 1")
    assert len(project.ledger()) > 62
    assert project.query("select distinct id from stoker.attempts") == [(stubborn,)]


def test_whatever_ran_in_a_runner_that_died_has_spent_an_attempt(project: Project) -> None:
    """P1: which of them did it cannot be known; what had not started is not charged."""
    project.write(CONFIG.replace('timeout = "1s"', 'timeout = "1m"'), JOBS)
    killer, *others = project.enqueue("several", "kill", "gate", "gate", "gate", "gate", "gate")
    fire = project.start("fire")
    project.wait_for_starts(5)
    wait_until(lambda: project.query("select 1 from stoker.attempts") != [], 10, "nothing was charged")
    project.open_gate()
    assert fire.wait(timeout=30) == 0
    stands = states(project)
    assert stands[killer] == "failed 2"
    assert {stands[task] for task in others} <= {"done 1", "done 2", "failed 2"}
    starts = [task for _, task, _, _ in project.ledger()]
    assert all(starts.count(task) == int(stands[task].split()[1]) for task in (killer, *others))


def test_no_task_is_lost_that_ends_while_others_are_being_settled(project: Project) -> None:
    """P1: tasks of every length end all the time, also while a part of their claim is slow on its way to the database."""
    project.write(CONFIG.replace("concurrency = 4", "concurrency = 32").replace('timeout = "1s"', 'timeout = "1m"'), JOBS)
    ids = project.enqueue("several", *[place % 100 / 60 for place in range(200)])
    with psycopg.connect(project.url, autocommit=True) as connection:
        connection.execute(
            "create function public.slow() returns trigger language plpgsql as 'begin perform pg_sleep(0.3); return new; end';"
            "create trigger slow before update on stoker.claims for each row execute function public.slow()"
        )
    assert project.run("fire").returncode == 0
    assert states(project) == dict.fromkeys(ids, "done 1")
    assert project.query("select done from stoker.workers") == [(200,)]


def test_a_task_that_comes_alone_starts_while_others_run(project: Project) -> None:
    """What was claimed ahead, and alone, waits for a free place only."""
    project.write(CONFIG.replace('timeout = "1s"', 'timeout = "1m"'), JOBS)
    project.enqueue("several", *[0.05] * 40)
    assert project.run("fire").returncode == 0
    project.enqueue("several", "gate", "gate", "gate", 0.5)
    fire = project.start("fire")
    project.wait_for_starts(44)
    (alone,) = project.enqueue("several", 0.01)
    wait_until(lambda: alone in {task for _, task, _, _ in project.ledger("end")}, 10, "the single task never ran")
    project.open_gate()
    assert fire.wait(timeout=30) == 0


def test_handlers_that_hold_every_thread_do_not_hold_the_others(project: Project) -> None:
    """A thread cannot be cancelled: those of the loop may all be taken, and what needs none goes on."""
    project.write(CONFIG.replace("max_attempts = 2", "max_attempts = 1"), JOBS)
    held = project.enqueue("several", *["thread"] * 10)
    others = project.enqueue("several", *[0.001] * 100)
    assert project.run("fire").returncode == 0
    assert states(project) == dict.fromkeys(held, "failed 1") | dict.fromkeys(others, "done 1")


def test_a_late_cancellation_hits_nobody_else(project: Project) -> None:
    """A handler that cancels itself too late, or leaves that to a timer, harms neither its neighbours nor its place."""
    project.write(CONFIG, JOBS)
    ids = project.enqueue("several", *["late", "cancel"] * 6, *[0.1] * 20)
    assert project.run("fire").returncode == 0
    assert states(project) == dict.fromkeys(ids, "done 1")


def test_what_tasks_print_at_the_same_time_is_kept_with_each(project: Project) -> None:
    """Interleaved words are sorted out by the context they were written in."""
    project.write(CONFIG, JOBS)
    ids = project.enqueue("several", *["print"] * 12)
    assert project.run("fire").returncode == 0
    kept = dict(project.query("select id, output from stoker.outputs"))
    assert kept == {task: f"{task} one\n{task} two\n{task} three\n" for task in ids}


def test_a_handler_that_is_not_async_cannot_overlap(project: Project) -> None:
    """The mode is refused with a reason, and no task of it is charged."""
    project.write(CONFIG.replace("jobs:several", "jobs:quick"), JOBS)
    (task,) = project.enqueue("several", 1)
    project.run("fire")
    assert states(project) == {task: "queued 0"}
    assert "concurrency = 4 needs an async handler" in project.run("note").stdout
