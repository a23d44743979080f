"""Operators on the real command line: tasks moved, modes paused, questions answered, and all of it told."""

import os
import signal
from typing import Any

import pytest
from tests.end_to_end.project import Project
from tests.waiting import wait_until

CONFIG = """
[limits]
max_pool = 1
task_cap = "none"
fires_per_day = "none"
[worker]
linger = "0s"
[modes.quick]
handler = "jobs:quick"
[modes.gated]
handler = "jobs:gated"
[modes.failing]
handler = "jobs:failing"
max_attempts = 1
[modes.late]
handler = "jobs:late"
max_attempts = 3
[modes.pay]
handler = "jobs:deadly"
side_effect = true
[modes.candid]
handler = "jobs:candid"
errors = "full"
backoff_base = "1ms"
max_attempts = 9
"""

LATE = '''
def late(task):
    """Fails once the file "gate" is there."""
    gated(task)
    raise ValueError("late")


def candid(task):
    """Tells its payload in every way there is: output, progress, step, error, question, result."""
    from stoker.worker.task import Fail, Hold

    secret = task.payload["secret"]
    print(secret)
    task.progress(0.5, secret)
    task.step("one", lambda: secret)
    time.sleep(1.2 if task.attempt == 1 else 0)
    if task.attempt == 1:
        raise ValueError(secret)
    if task.answer is None:
        return Hold(f"what of {secret}?")
    return Fail(secret) if task.payload["end"] == "failed" else [secret, task.answer]
'''


@pytest.fixture
def shop(project: Project) -> Project:
    project.write(CONFIG, LATE)
    return project


def said(shop: Project, *arguments: str, code: int = 0) -> str:
    """What a command says, on both streams, and that it ends with this code."""
    done = shop.run(*arguments)
    assert done.returncode == code, done.stderr
    return done.stdout + done.stderr


def states(shop: Project) -> dict[int, str]:
    return dict(shop.query("select id, status from stoker.task_queue order by id"))


def put(shop: Project, mode: str, **more: Any) -> int:
    """A task by the door in SQL, with what only that takes."""
    arguments = "".join(f", {name} => %s" for name in more)
    ((task,),) = shop.query(f"select stoker.enqueue(%s, '1', allow_unknown => true{arguments})", mode, *more.values())
    return int(task)


def test_tasks_are_moved_by_id_and_by_filter_and_it_is_told(shop: Project) -> None:
    """Counted first, nothing done in a dry run, who and why kept; what cannot be moved is said and is no error."""
    first, second = shop.enqueue("failing", 1, 2)
    (queued,) = shop.enqueue("quick", 1)
    assert said(shop, "pause", "quick", "--reason", "later")
    shop.run("fire")
    assert states(shop) == {first: "failed", second: "failed", queued: "queued"}
    words = said(shop, "tasks", "retry", "--mode", "failing", "--kind", "ValueError", "--dry-run")
    assert words == f"retry: 2 would be queued\ntasks: {first}, {second}\n"
    assert states(shop)[first] == "failed"
    told = shop.json("tasks", "retry", "--mode", "failing", "--reason", "repaired", "--by", "ann")
    assert (told["changed"], told["unchanged"], told["dry_run"]) == ({"queued": 2}, {}, False)
    assert said(shop, "tasks", "hold", str(first), str(queued)) == "hold: 2 held\n"
    assert said(shop, "tasks", "resume", str(first), "--answer", "yes") == "resume: 1 queued\n"
    assert said(shop, "tasks", "cancel", str(second), "--by", "bob") == "cancel: 1 cancelled\n"
    assert said(shop, "tasks", "cancel", str(second), str(first)) == "cancel: 1 cancelled; unchanged: 1 cancelled\n"
    assert "1 held" in said(shop, "tasks", "approve", str(queued))
    events = shop.json("events", "--task", str(first))
    assert [(one["action"], one["actor"], one["reason"]) for one in events][-1] == ("retry", "ann", "repaired")
    assert [one["action"] for one in events] == ["cancel", "resume", "hold", "retry"]
    assert events[1]["detail"] == {"kind": "operator", "answered": True}
    assert shop.json("tasks", "show", str(first))["events"] == events
    assert "bob" in said(shop, "tasks", "show", str(second))
    assert len(shop.json("events", "--limit", "2")) == 2
    assert "retry   1     failing  repaired" in said(shop, "events")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["cancel"], "say which tasks, by ids or by filters"),
        (["cancel", "1", "--mode", "quick"], "say which tasks, by ids or by filters"),
        (["cancel", "7"], "there is no task 7; nothing was changed"),
        (["retry", "--state", "done"], "retry does nothing to a task that is 'done'; it is for: failed, cancelled"),
        (["retry", "--mode", "quick", "--older-than", "soon"], "--older-than: not a duration"),
        (["release", "1"], "--as"),
        (["release", "1", "--as", "held"], "--as 'held': a task is released as done, failed or queued"),
        (["hold", "1", "--by", ""], "--by is empty"),
        (["hold", "1", "--reason", "x" * 4001], "--reason has 4,001 characters, above the limit of 4,000"),
        (["show"], "say which task, by its id or by its key"),
        (["show", "--mode", "quick", "--key", "none"], "no task of mode quick has the key 'none'"),
        (["erase", "1"], "task 1 is queued, not finished: nothing was erased; --force cancels it first"),
    ],
)
def test_what_cannot_be_asked_is_refused_with_what_to_do(shop: Project, arguments: list[str], words: str) -> None:
    """Exit code 2, and nothing is changed."""
    shop.enqueue("quick", 1)
    assert words in said(shop, "tasks", *arguments, code=2)
    assert states(shop) == {1: "queued"}
    assert shop.query("select count(*) from stoker.events") == [(0,)]


def test_an_erased_error_is_gone_from_the_note_that_quoted_it(shop: Project) -> None:
    """The note stays, with its counts and what it says of others."""
    (first,) = shop.enqueue("failing", 1)
    shop.run("fire")
    assert "cannot do" in said(shop, "note")
    before = shop.facts()
    said(shop, "tasks", "erase", str(first))
    assert "cannot do" not in said(shop, "note") + said(shop, "tasks", "show", str(first)) + said(shop, "explain", str(first))
    after = shop.facts()
    before["failures"][0]["example"]["error"] = None
    assert after == before


def holding(shop: Project, secret: str) -> dict[str, int]:
    """By table and partition, how many rows hold it, in any column."""
    tables = shop.query("select relname from pg_class where relnamespace = 'stoker'::regnamespace and relkind = 'r'")
    statement = "select count(*) from stoker.{} t where position(%s in t::text) > 0"
    counts = {table: shop.query(statement.format(table), secret)[0][0] for (table,) in tables}
    return {table: count for table, count in counts.items() if count}


def test_nothing_that_an_erased_task_said_is_left_in_any_table(shop: Project) -> None:
    """E: of one that is done, one that failed and one that was cancelled; only reasons stay, in the events."""
    ids = shop.enqueue("candid", *({"secret": "Canary", "end": end} for end in ("done", "failed", "cancelled")))
    shop.run("fire")
    wait_until(lambda: shop.run("fire") and set(states(shop).values()) == {"held"}, 20, "questions")
    assert {"tasks_0", "held", "steps", "outputs_0", "attempts_0", "progress"} <= set(holding(shop, "Canary"))
    said(shop, "tasks", "resume", *map(str, ids[:2]), "--answer", "CanaryAnswer")
    said(shop, "tasks", "cancel", str(ids[2]), "--reason", "CanaryReason")
    shop.run("fire")
    assert list(states(shop).values()) == ["done", "failed", "cancelled"]
    before = holding(shop, "Canary")
    assert {"outcomes_0", "failed", "cancelled", "notes", "events"} <= set(before)
    assert holding(shop, "CanaryAnswer")
    for task in ids:
        said(shop, "tasks", "erase", str(task))
    assert holding(shop, "Canary") == holding(shop, "CanaryReason") == {"events": 1}
    assert list(states(shop).values()) == ["done", "failed", "cancelled"]
    assert "Canary" not in "".join(said(shop, "note", str(fire)) for (fire,) in shop.query("select fire from stoker.notes"))


def test_a_task_is_found_by_its_key_as_soon_as_it_is_there(shop: Project) -> None:
    """And erased by its id, once it is finished or with force."""
    task = put(shop, "quick", key="order 1")
    shown = shop.json("tasks", "show", "--mode", "quick", "--key", "order 1")
    assert (shown["id"], shown["status"], shown["payload"]) == (task, "queued", 1)
    assert said(shop, "tasks", "erase", str(task), "--force", "--reason", "asked for") == "erase: 1 erased\n"
    shown = shop.json("tasks", "show", str(task))
    assert (shown["status"], shown["payload"]) == ("cancelled", None)
    assert "erased at" in said(shop, "explain", str(task))


def test_a_paused_mode_is_shown_wherever_one_looks(shop: Project) -> None:
    """No worker is planned for it, its waiting is not hollow, and it goes on when it is unpaused."""
    (task,) = shop.enqueue("quick", 1)
    assert "there is no mode 'quik'" in said(shop, "pause", "quik", "--reason", "x", code=2)
    assert said(shop, "pause", "quick", "--reason", "the disk is full", "--by", "ann").startswith("quick is paused")
    assert "paused already: paused by ann" in said(shop, "pause", "quick", "--reason", "other")
    for command in (["status"], ["plan"], ["tasks", "ls"], ["doctor"], ["explain", str(task)], ["fire"], ["note"]):
        words = said(shop, *command)
        assert "the disk is full" in words, command
        assert "ann" in words, command
    facts = shop.facts()
    assert [(one["mode"], one["by"], one["reason"]) for one in facts["paused"]] == [("quick", "ann", "the disk is full")]
    assert (facts["workers"]["launched"], facts["modes"][-1]["left"]) == (0, 1)
    assert "hollow" not in said(shop, "note")
    ((share,),) = [[s for s in facts["plan"]["shares"] if s["mode"] == "quick"]]
    assert (share["workers"], share["ceiling"]) == (0, "paused")
    assert said(shop, "unpause", "quick") == "quick is not paused any more\n"
    assert said(shop, "unpause", "quick") == "quick is not paused; paused are: none\n"
    shop.run("fire")
    assert states(shop) == {task: "done"}
    assert [one["action"] for one in shop.json("events")] == ["unpause", "pause"]


def test_a_worker_of_a_mode_that_is_paused_claims_no_more_and_leaves(shop: Project) -> None:
    """What it has is finished; the rest waits, and the fire comes to its note."""
    shop.enqueue("gated", *range(40))
    fire = shop.start("fire")
    shop.wait_for_starts(1)
    said(shop, "pause", "gated", "--reason", "enough")
    shop.open_gate()
    assert fire.wait(60) == 0
    done = list(states(shop).values()).count("done")
    assert 1 <= done <= 5
    assert shop.query("select exit_reason, done from stoker.workers") == [("empty", done)]
    assert list(states(shop).values()).count("queued") == 40 - done
    assert {mode["mode"]: mode["left"] for mode in shop.facts()["modes"]}["gated"] == 40 - done


def test_the_note_counts_what_is_held_expired_and_cancelled(shop: Project) -> None:
    """O4: its sums are those of the rows; who waits for a person is said, with what to do."""
    held = [put(shop, "quick", needs_approval=True) for _ in range(2)]
    line = [put(shop, "quick", lane_key="a") for _ in range(2)]
    put(shop, "quick", expires_at="2026-01-01")
    (late,) = shop.enqueue("late", 1)
    said(shop, "tasks", "hold", str(line[0]), "--reason", "wait for the bank", "--by", "ann")
    fire = shop.start("fire")
    shop.wait_for_starts(1)
    assert said(shop, "tasks", "cancel", str(late)) == "cancel: 1 requested\n"
    assert "asked to be cancelled" in said(shop, "explain", str(late))
    shop.open_gate()
    assert fire.wait(60) == 0
    facts = shop.facts()
    rows = shop.query("select mode, status, count(*)::int from stoker.task_queue where not is_in_line group by 1, 2")
    assert sorted(rows) == [("late", "cancelled", 1), ("quick", "expired", 1), ("quick", "held", 3)]
    told = {mode["mode"]: mode for mode in facts["modes"]}
    for mode, state, count in rows:
        assert told[mode][state] == count
    sums = [sum(mode[name] for mode in facts["modes"]) for name in ("held", "expired", "cancelled", "behind", "done", "left")]
    assert sums == [3, 1, 1, 1, 0, 0]
    assert [(one["kind"], one["count"], one["task"]) for one in facts["held"]] == [
        ("approval", 2, held[0]),
        ("operator", 1, line[0]),
    ]
    words = said(shop, "note")
    assert "3 held, 1 cancelled, 1 expired" in words
    assert "2 of quick to be approved" in words
    (quick,) = [one for one in shop.json("status")["queue"] if one["mode"] == "quick"]
    assert (quick["held"], quick["behind"], quick["ready"], quick["paused"]) == (3, 1, 0, None)
    assert "wait for the bank" in said(shop, "explain", str(line[0]))
    assert f"behind task {line[0]}" in said(shop, "explain", str(line[1]))
    said(shop, "tasks", "approve", *(str(task) for task in held))
    said(shop, "fire")
    assert [mode["expired"] for mode in shop.facts()["modes"] if mode["mode"] == "quick"] == [0]
    assert shop.json("tasks", "ls", "--state", "held")[0]["held_for"] == "operator"


def test_a_person_settles_a_side_effect_whose_worker_was_lost(shop: Project) -> None:
    """P3: not while its old runner may be alive, unless forced; what was found is the end of it."""
    (task,) = shop.enqueue("pay", "SIGKILL")
    shop.run("fire")
    assert states(shop) == {task: "unknown"}
    assert "may be alive until" in said(shop, "explain", str(task))
    words = said(shop, "tasks", "release", str(task), "--as", "done")
    assert "release: nothing changed; unchanged: 1 too early" in words
    assert "--force releases them anyway" in words
    assert said(shop, "tasks", "release", str(task), "--as", "done", "--force", "--by", "ann") == "release: 1 done\n"
    assert states(shop) == {task: "done"}
    assert "is done since" in said(shop, "explain", str(task))


def test_explain_says_why_for_whatever_stands(shop: Project) -> None:
    """One paragraph of plain words for each state, and for a task that there is not."""
    running, stranger, newer = shop.enqueue("gated", 1)[0], put(shop, "nowhere"), put(shop, "quick", version=9)
    delayed = put(shop, "quick", available_at="2126-01-01")
    fire = shop.start("fire")
    shop.wait_for_starts(1)
    assert "is being run by worker" in said(shop, "explain", str(running))
    assert "not configured here" in said(shop, "explain", str(stranger))
    assert "Active fire(s): 1" in said(shop, "explain", str(stranger))
    assert "version 9, newer than the configured 1" in said(shop, "explain", str(newer))
    shop.open_gate()
    wait_until(lambda: fire.poll() is not None, 60, "the fire ends")
    assert "not due until 2126-01-01" in said(shop, "explain", str(delayed))
    assert shop.json("explain", str(running))["state"] == "done"
    assert "there is no task 99" in said(shop, "explain", "99", code=2)


def test_one_task_runs_here_and_now_whatever_its_turn(project: Project) -> None:
    """Beside a fire that is busy, also before it is due; nothing else is taken, and it is shown with what it printed."""
    project.write('[limits]\nmax_pool = 1\n[modes.quick]\nhandler = "jobs:quick"\n[modes.gated]\nhandler = "jobs:gated"\n')
    project.enqueue("gated", 1)
    fire = project.start("fire", "--mode", "gated")
    project.wait_for_starts(1)
    first, second = project.enqueue("quick", 1, 2)
    (later,) = project.json("enqueue", "quick", "3", "--delay", "1h")["ids"]
    refused = project.run("tasks", "run", str(second))
    assert (refused.returncode, "--inline" in refused.stderr) == (2, True)
    for task in (second, later):
        assert project.json("tasks", "run", str(task), "--inline")["status"] == "done"
    assert [row["status"] for row in project.json("tasks", "ls", "--mode", "quick")] == ["done", "done", "queued"]
    again = project.run("tasks", "run", str(second), "--inline")
    assert (again.returncode, "is done, not queued" in again.stderr) == (2, True)
    project.run("pause", "quick", "--reason", "no")
    paused = project.run("tasks", "run", str(first), "--inline")
    assert (paused.returncode, "was not started: Task 1" in paused.stderr or "is paused by" in paused.stderr) == (2, True)
    project.run("unpause", "quick")
    front, behind = (project.json("enqueue", "quick", "4", "--lane-key", "l")["ids"][0] for _ in range(2))
    in_line = project.run("tasks", "run", str(behind), "--inline")
    assert (in_line.returncode, f"task {front}, which" in in_line.stderr) == (2, True)
    for task in (front, behind):
        assert project.json("tasks", "run", str(task), "--inline")["status"] == "done"
    assert project.query("select count(*) from stoker.workers where exit_reason = 'lost'") == [(0,)]
    project.open_gate()
    assert fire.wait(timeout=30) == 0
    assert {mode for mode, *_ in project.ledger()} == {"gated", "quick"}
    assert len(project.ledger()) == 5


@pytest.mark.parametrize("end", ["cancel", "kill"])
def test_the_place_of_a_task_that_was_called_off_or_lost_is_free_again(project: Project, end: str) -> None:
    """R14: with room for one alone, in the pool and in its mode, the next task runs in the next fire at the latest."""
    project.write('[limits]\nmax_pool = 1\n[modes.gated]\nhandler = "jobs:gated"\nmax_workers = 1\nmax_attempts = 1\n')
    first, second = project.enqueue("gated", 1, 2)
    fire = project.start("fire")
    project.wait_for_starts(1)
    if end == "cancel":
        assert project.run("tasks", "cancel", str(first)).returncode == 0
    (keeper,) = project.keepers()
    os.kill(keeper, signal.SIGKILL)
    project.open_gate()
    assert fire.wait(timeout=40) == 0
    assert project.run("fire").returncode == 0
    stands = {row["id"]: row["status"] for row in project.json("tasks", "ls")}
    assert stands == {first: "cancelled" if end == "cancel" else "failed", second: "done"}
