"""A fire from its opening to its note: what runs, in which order, how often, and what the note says of it."""

import json
import signal
from typing import Any

import pytest
from tests.end_to_end.project import Project
from tests.waiting import wait_until

HEAD = """
[limits]
max_pool = {pool}
task_cap = "none"
fires_per_day = "none"
[worker]
lease = "3m"
renew_every = "{renew}"
linger = "{linger}"
output_limit = "2KiB"
result_limit = "1KiB"
"""

JOBS = '''
import asyncio


async def labelled(task):
    await asyncio.sleep(0)
    return {"status": task.payload, "attempt": task.attempt, "delivery": str(task.delivery_id)}


def flaky(task):
    """Fails once."""
    note(task, "start")
    if task.attempt == 1:
        raise RuntimeError("not yet")


def unfit(task):
    """Results that cannot be kept."""
    note(task, "start")
    return {"large": "x" * 2000, "nan": float("nan"), "set": {1}, "nul": "a\\0b", "surrogate": "\\ud800"}[task.payload]


def brief(task):
    note(task, "start")
    time.sleep(0.001)


def talkative(task):
    print(f"out {task.id}", flush=True)
    if task.payload == "binary":
        os.write(1, b"\\xb2\\xff\\0\\x1b[31m\\xe2\\x82")
        subprocess.run([sys.executable, "-S", "-c", "print('from below')"])
    if task.payload == "much":
        for line in range(2000):
            print("line", line, file=sys.stderr)
    if task.payload == "failing":
        print("last words")
        raise ValueError("failed")
'''


def write(project: Project, modes: str, *, pool: int = 2, linger: str = "100ms", renew: str = "10s") -> None:
    """A configuration with these modes, and the handlers above."""
    project.write(HEAD.format(pool=pool, linger=linger, renew=renew) + modes, JOBS)


def test_an_empty_fire_gets_a_note_that_says_so(project: Project) -> None:
    """P4: it counts as a fire, launches nobody, and its note is there for the next command too."""
    write(project, '[modes.quick]\nhandler = "jobs:quick"\n')
    said = project.run("fire", "--reason", "to see")
    assert said.returncode == 0
    assert said.stdout.startswith("# Fire 1: nothing to do, in ")
    assert "because: to see" in said.stdout
    facts = project.facts()
    assert (facts["workers"]["launched"], facts["needs"], facts["failures"]) == (0, [], [])
    assert project.query("select state from stoker.fires") == [("closed",)]
    assert project.run("note").stdout == said.stdout


def test_a_note_counts_the_most_frequent_labels_and_the_others_together(project: Project) -> None:
    """Whatever a handler says of each task, the note stays short, and its counts add up."""
    write(project, '[modes.labelled]\nhandler = "jobs:labelled"\nlabel = "status"\n', pool=2)
    project.enqueue("labelled", "often", "often", *range(300))
    facts = project.json("fire")
    ((tally,),) = [[mode["tally"]] for mode in facts["modes"]]
    assert (len(tally), sum(tally.values()), tally["often"]) == (51, 302, 2)
    assert tally["(others)"] == 302 - 2 - 49


def test_handlers_return_results_which_the_note_tallies_by_label(project: Project) -> None:
    """A plain function and an async one; a result is kept with its task, and its label is counted."""
    write(
        project,
        '[modes.quick]\nhandler = "jobs:quick"\n[modes.none]\nhandler = "jobs:plain"\n'
        + '[modes.labelled]\nhandler = "jobs:labelled"\nlabel = "status"\n',
        pool=3,
    )
    payloads: list[Any] = [0, "ü€", {"a": [1, None, True]}, [], 1.5, None]
    quick = project.enqueue("quick", *payloads)
    project.enqueue("none", *range(20))
    labelled = project.enqueue("labelled", "same", "new", "same", None, 7)
    facts = project.json("fire")
    modes = {mode["mode"]: mode for mode in facts["modes"]}
    assert {name: mode["done"] for name, mode in modes.items()} == {"quick": 6, "none": 20, "labelled": 5}
    assert modes["labelled"]["tally"] == {"same": 2, "new": 1, "7": 1}
    results = dict(project.query("select lo, result from stoker.outcomes where result is not null"))
    assert [results.get(task) for task in quick] == payloads
    assert (results[labelled[0]]["status"], results[labelled[0]]["attempt"]) == ("same", 1)
    assert len({results[task]["delivery"] for task in labelled}) == 5
    printed = [json.loads(line) for line in project.run("tasks", "results", "--mode", "labelled", "--last").stdout.splitlines()]
    assert [line["task"] for line in printed] == labelled
    assert "- labelled: 1 7, 1 new, 2 same" in project.run("note").stdout


def test_the_counts_of_a_note_add_up_to_the_rows(project: Project) -> None:
    """O4: done, failed, retried, unknown, left and not due of a fire in which everything happens."""
    write(
        project,
        '[modes.quick]\nhandler = "jobs:quick"\n[modes.plain]\nhandler = "jobs:plain"\n'
        + '[modes.failing]\nhandler = "jobs:failing"\nmax_attempts = 2\nbackoff_base = "10ms"\n'
        + '[modes.patient]\nhandler = "jobs:failing"\nbackoff_base = "1h"\n'
        + '[modes.side]\nhandler = "jobs:failing"\nside_effect = true\nmax_workers = 1\n'
        + '[modes.deadly]\nhandler = "jobs:deadly"\nmax_attempts = 1\nmax_workers = 1\n'
        + '[modes.capped]\nhandler = "jobs:plain"\ntask_cap = 3\nmax_workers = 1\n',
        pool=8,
    )
    for mode, count in {"quick": 7, "plain": 50, "failing": 3, "patient": 2, "side": 2, "capped": 8}.items():
        project.enqueue(mode, *range(count))
    project.enqueue("deadly", "SIGKILL", "good", "exit")
    project.run("enqueue", "plain", "1", "--delay", "1h")
    facts = project.json("fire")
    for mode in facts["modes"]:
        name = mode["mode"]
        assert {key: mode[key] for key in ("done", "failed", "retried", "unknown", "left", "not_due")} == _rows(project, name)
    ends = ("done", "failed", "unknown", "left", "not_due")
    assert sum(mode[end] for mode in facts["modes"] for end in ends) == 7 + 50 + 3 + 2 + 2 + 8 + 3 + 1
    counted = {(one["mode"], one["kind"]): one["count"] for one in facts["failures"]}
    assert counted == dict(
        project.query("select row(mode, error_kind), count(*) from stoker.attempts join stoker.tasks using (id) group by 1")
    )
    assert facts["workers"]["launched"] == sum(facts["workers"]["exits"].values()) == 8
    assert project.query("select count(*) from stoker.task_queue where status is null") == [(0,)]


def _rows(project: Project, mode: str) -> dict[str, int]:
    statement = """
        select coalesce((select sum(hi - lo + 1) from stoker.outcomes join stoker.tasks on id = lo where mode = %s), 0)::int,
               (select count(*) from stoker.failed join stoker.tasks using (id) where mode = %s)::int,
               (select count(*) from stoker.attempts join stoker.tasks using (id) where mode = %s and verdict = 'retry')::int,
               (select count(*) from stoker.unknown join stoker.tasks using (id) where mode = %s)::int,
               coalesce((select sum(hi - lo + 1) from stoker.ready where mode = %s), 0)::int,
               coalesce((select sum(hi - lo + 1) from stoker.later where mode = %s), 0)::int"""
    (row,) = project.query(statement, *[mode] * 6)
    return dict(zip(("done", "failed", "retried", "unknown", "left", "not_due"), row, strict=True))


def test_a_retry_that_is_due_soon_runs_in_the_same_fire_and_a_later_one_waits(project: Project) -> None:
    """A worker lingers for what is due within its linger; the rest is queued, with its attempt spent."""
    write(
        project,
        '[modes.soon]\nhandler = "jobs:flaky"\nbackoff_base = "100ms"\n'
        + '[modes.later]\nhandler = "jobs:flaky"\nbackoff_base = "3s"\n',
        linger="500ms",
    )
    (soon,), (later,) = project.enqueue("soon", 1), project.enqueue("later", 1)
    facts = project.json("fire")
    modes = {mode["mode"]: (mode["done"], mode["retried"], mode["not_due"]) for mode in facts["modes"]}
    assert modes == {"soon": (1, 1, 0), "later": (0, 1, 1)}
    assert project.query("select id, status, attempts from stoker.task_queue order by id") == [
        (soon, "done", 2),
        (later, "queued", 1),
    ]
    wait_until(lambda: project.query("select 1 from stoker.later where available_at > now()") == [], 10)
    project.json("fire")
    assert project.query("select status, attempts from stoker.task_queue where id = %s", later) == [("done", 2)]


def test_a_delayed_task_is_promoted_by_a_keeper_while_it_lingers(project: Project) -> None:
    """A task that falls due soon joins the fire that runs, also when the orchestrator does not move."""
    write(project, '[modes.quick]\nhandler = "jobs:quick"\nmax_workers = 1\n', linger="5s", renew="1m")
    project.enqueue("quick", 1)
    assert project.run("enqueue", "quick", "2", "--delay", "2s").returncode == 0
    assert project.query("select count(*) from stoker.later") == [(1,)]
    fire = project.start("fire")
    project.wait_for_starts(1)
    fire.send_signal(signal.SIGSTOP)
    project.wait_for_starts(2, timeout=20)
    fire.send_signal(signal.SIGCONT)
    assert fire.wait(timeout=30) == 0
    assert [mode["done"] for mode in project.facts()["modes"]] == [2]


def test_the_more_urgent_task_goes_first_and_of_equals_the_older(project: Project) -> None:
    """Lower is more urgent, negative too; the order holds over batches."""
    write(project, '[modes.quick]\nhandler = "jobs:quick"\nmax_workers = 1\n')
    order = [5, 0, 2147483647, -3, 0, -2147483648, 5]
    placed = [(priority, task) for priority in order for task in _enqueued(project, priority, 30)]
    project.json("fire")
    assert [task for _, task, _, _ in project.ledger()] == [task for _, task in sorted(placed)]


def _enqueued(project: Project, priority: int, count: int) -> list[int]:
    lines = "\n".join(json.dumps({"mode": "quick", "payload": 1, "priority": priority}) for _ in range(count))
    ids: list[int] = project.json("enqueue", "--jsonl", "-", stdin=lines)["ids"]
    return ids


def test_an_urgent_task_enqueued_during_a_fire_overtakes_thousands(project: Project) -> None:
    """It is claimed within about a second, whatever was claimed ahead: here long before 4,000 others are done."""
    write(project, '[modes.brief]\nhandler = "jobs:brief"\nmax_workers = 1\n')
    project.enqueue("brief", *[0] * 4000)
    fire = project.start("fire")
    project.wait_for_starts(300)
    urgent = project.json("enqueue", "brief", "1", "--priority", "-1")["ids"][0]
    assert fire.wait(timeout=60) == 0
    order = [task for _, task, _, _ in project.ledger()]
    assert len(order) == 4001
    assert order.index(urgent) < 3000


def test_a_handler_that_does_not_import_leaves_its_tasks_untouched_and_the_note_says_so(project: Project) -> None:
    """The worker leaves as broken, nothing is charged, the other mode is served."""
    write(
        project,
        '[modes.broken]\nhandler = "no_such_module:f"\n[modes.absent]\nhandler = "jobs:no_such"\n'
        '[modes.quick]\nhandler = "jobs:quick"\n',
        pool=4,
    )
    project.enqueue("broken", 1, 2)
    project.enqueue("absent", 1)
    project.enqueue("quick", 1)
    facts = project.json("fire")
    assert facts["workers"]["exits"] == {"broken": 3, "empty": 1}
    needs = [need["text"] for need in facts["needs"] if need["what"] == "handler cannot run"]
    assert len(needs) == 2
    assert "absent: AttributeError" in needs[0]
    assert "no_such" in needs[0]
    assert "broken: ModuleNotFoundError: No module named 'no_such_module'" in needs[1]
    stands = project.query("select mode, status, attempts, count(*) from stoker.task_queue group by 1, 2, 3 order by 1")
    assert stands == [("absent", "queued", 0, 1), ("broken", "queued", 0, 2), ("quick", "done", 1, 1)]
    assert project.query("select count(*) from stoker.attempts") == [(0,)]
    assert project.query("select count(*) from stoker.claims") == [(0,)]


def test_what_no_mode_can_run_stays_untouched_and_is_reported(project: Project) -> None:
    """P11, R58: unknown modes and newer payload versions cost no attempt, block nothing, and stand in the note."""
    write(project, '[modes.quick]\nhandler = "jobs:quick"\nversion = 2\n')
    lines = [{"mode": "stranger", "payload": 1}, *({"mode": "quick", "payload": v, "version": v} for v in (3, 2, 9))]
    text = "\n".join(json.dumps(line) for line in lines)
    ids = project.json("enqueue", "--allow-unknown", "--jsonl", "-", stdin=text)["ids"]
    assert sorted(project.json("plan")["unserved"]) == [["quick", 3, 1], ["quick", 9, 1], ["stranger", 1, 1]]
    facts = project.json("fire")
    assert [task for _, task, _, _ in project.ledger()] == [ids[2]]
    texts = [need["text"] for need in facts["needs"] if need["what"] == "not served"]
    assert len(texts) == 3
    assert any("stranger" in text for text in texts)
    assert any("payload version 9" in text for text in texts)
    standing = project.query("select id, status, attempts from stoker.task_queue where status <> 'done' order by id")
    assert standing == [(task, "queued", 0) for task in sorted({*ids} - {ids[2]})]
    assert project.query("select count(*) from stoker.attempts") == [(0,)]


def test_a_host_runs_the_modes_that_are_its_own(project: Project) -> None:
    """P11: the others cost nothing and are reported as nobody's fault; an unknown name refuses the start."""
    modes = '[modes.plain]\nhandler = "jobs:plain"\n[modes.quick]\nhandler = "jobs:quick"\n'
    project.write(modes + '[worker]\nmodes = ["quick"]\n')
    (left,), (done,) = project.enqueue("plain", 1), project.enqueue("quick", 1)
    assert project.run("fire").returncode == 0
    assert [(one["id"], one["status"], one["attempts"]) for one in project.json("tasks", "ls")] == [
        (done, "done", 1), (left, "queued", 0),
    ]  # fmt: skip
    assert [need["what"] for need in project.facts()["needs"]] == []
    assert project.json("status")["unserved"] == []
    assert "This host does not run its mode ([worker] modes)" in project.run("explain", str(left)).stdout
    for command in (["fire", "--mode", "plain"], ["tasks", "run", str(left), "--inline"]):
        refused = project.run(*command)
        assert refused.returncode == 2
        assert "[worker] modes" in refused.stderr
    project.write(modes + '[worker]\nmodes = ["quik"]\n')
    assert "no mode 'quik' is configured; configured: plain, quick" in " ".join(project.run("fire").stderr.split())
    project.write(modes)
    assert project.run("fire").returncode == 0
    assert {one["status"] for one in project.json("tasks", "ls")} == {"done"}


def test_an_older_payload_version_is_run_by_newer_code(project: Project) -> None:
    """R58: "version" is the newest payload that the code understands, so older ones still queued after an upgrade run."""
    write(project, '[modes.quick]\nhandler = "jobs:quick"\nversion = 3\n')
    lines = [json.dumps({"mode": "quick", "payload": v, "version": v}) for v in (1, 2, 3, 4)]
    project.json("enqueue", "--jsonl", "-", stdin="\n".join(lines))
    project.json("fire")
    assert project.query("select version, status from stoker.task_queue order by version") == [
        (1, "done"),
        (2, "done"),
        (3, "done"),
        (4, "queued"),
    ]


def test_a_result_that_cannot_be_kept_fails_its_task_for_good(project: Project) -> None:
    """R32: too large, NaN, a set, NUL, a lone surrogate: named, not run again; nothing of the value is told."""
    write(project, '[modes.unfit]\nhandler = "jobs:unfit"\nbackoff_base = "1ms"\n')
    ids = project.enqueue("unfit", "large", "nan", "set", "nul", "surrogate")
    project.json("fire")
    failed = project.query("select id, attempts, error_kind, error from stoker.failed order by id")
    assert [row[:2] for row in failed] == [(task, 1) for task in ids]
    assert [row[2] for row in failed] == ["result too large", *["result not JSON"] * 4]
    assert "above the limit of 1,024" in failed[0][3]
    assert "NaN" in failed[1][3]
    assert sorted(task for _, task, _, _ in project.ledger()) == ids


def test_output_is_kept_by_task_bounded_and_shown(project: Project) -> None:
    """R33: what is printed, from below too; bytes that are no text are replaced, and the last part of much is kept."""
    write(project, '[modes.talkative]\nhandler = "jobs:talkative"\nmax_attempts = 2\nbackoff_base = "1ms"\n')
    ids = project.enqueue("talkative", "plain", "binary", "much", "failing")
    (silent,) = project.enqueue("talkative", "plain")
    project.json("fire")
    shown = {task: project.run("logs", str(task)).stdout for task in ids}
    assert shown[ids[0]] == f"--- attempt 1\nout {ids[0]}\n"
    assert shown[ids[1]].startswith(f"--- attempt 1\nout {ids[1]}\n\ufffd\ufffd\ufffd\ufffd[31m")
    assert "from below" in shown[ids[1]]
    assert "\x1b" not in shown[ids[1]]
    assert "bytes cut" in shown[ids[2]]
    assert shown[ids[2]].endswith("line 1999\n")
    assert len(shown[ids[2]]) < 2048 + 100
    words = f"out {ids[3]}\nlast words\n"
    assert shown[ids[3]] == f"--- attempt 1\n{words}--- attempt 2\n{words}"
    assert [one["attempt"] for one in project.json("logs", str(ids[3]))] == [1, 2]
    project.query("delete from stoker.outputs where id = %s returning 1", silent)
    nothing = project.run("logs", str(silent))
    assert (nothing.returncode, nothing.stdout, nothing.stderr) == (0, "", f"task {silent} printed nothing\n")


def test_json_of_every_command_has_its_documented_shape(project: Project) -> None:
    """Programs read it: keys are there, and are never renamed unnoticed."""
    write(project, '[modes.quick]\nhandler = "jobs:quick"\n[modes.failing]\nhandler = "jobs:failing"\nmax_attempts = 1\n')
    (task,) = project.enqueue("quick", {"a": 1})
    (bad,) = project.enqueue("failing", 1)
    plan = project.json("plan")
    assert {"shares", "max_pool", "ceiling", "workers", "can_take", "unserved"} <= set(plan)
    assert [(share["mode"], share["backlog"], share["workers"]) for share in plan["shares"]] == [
        ("failing", 1, 1),
        ("quick", 1, 1),
    ]
    queue = [(mode["mode"], mode["ready"], mode["not_due"]) for mode in project.json("status")["queue"]]
    assert queue == [("failing", 1, 0), ("quick", 1, 0)]
    facts = project.json("fire")
    assert facts == project.facts(1)
    status = project.json("status")
    assert sum(mode["ready"] + mode["not_due"] for mode in status["queue"]) == len(status["active_fires"]) == 0
    assert set(status["last_note"]) == {"fire", "verdict", "at"}
    (fire,) = project.json("fires", "ls")
    assert (fire["fire"], fire["lane"], fire["state"], fire["refusal"]) == (1, "main", "closed", None)
    shown = project.json("fires", "show", "1")
    assert {"interlocks", "plan", "sweep", "workers", "verdict", "code_version"} <= set(shown)
    assert len(shown["workers"]) == 2
    assert {"worker", "exit_reason", "done", "peak_memory_bytes", "cpu_seconds"} <= set(shown["workers"][0])
    assert [(one["id"], one["status"], one["error_kind"]) for one in project.json("tasks", "ls")] == [
        (bad, "failed", "ValueError"),
        (task, "done", None),
    ]
    assert [one["id"] for one in project.json("tasks", "ls", "--state", "failed", "--kind", "ValueError")] == [bad]
    one = project.json("tasks", "show", str(task))
    assert (one["payload"], one["result"], one["attempts"]) == ({"a": 1}, {"a": 1}, 1)
    assert [(each["attempt"], each["verdict"]) for each in one["attempts_ended"]] == [(1, "done")]
    (ended,) = project.json("tasks", "show", str(bad))["attempts_ended"]
    assert (ended["attempt"], ended["fire"], ended["verdict"]) == (1, 1, "failed")
    swept = project.json("sweep")
    assert {"fires_closed", "workers_released", "ghosts", "promoted"} <= set(swept)


@pytest.mark.parametrize("name", ["zero", "negative"])
def test_a_pool_of_nobody_launches_nobody_and_the_note_is_hollow(project: Project, name: str) -> None:
    """P5: zero lets nothing pass, and so does a negative number; work that waits is said to wait."""
    write(project, '[modes.quick]\nhandler = "jobs:quick"\n', pool=0 if name == "zero" else -4)
    project.enqueue("quick", 1, 2)
    said = project.run("fire")
    assert (said.returncode, project.ledger()) == (0, [])
    assert said.stdout.startswith("# Fire 1: hollow: 2 waiting, none done")
