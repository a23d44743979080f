"""Notes reach their channels from the command line: by a fire, by cron, by ``stoker run``, by a person; whatever is killed."""

import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.end_to_end.project import Project
from tests.sinks import HANG, Sink, http_sink
from tests.waiting import wait_until

CONFIG = """
[limits]
fires_per_day = "none"
[worker]
linger = "100ms"
[modes.plain]
handler = "jobs:plain"
[modes.failing]
handler = "jobs:failing"
max_attempts = 1
[modes.gated]
handler = "jobs:gated"
"""


@pytest.fixture
def sink() -> Iterator[Sink]:
    with http_sink() as made:
        yield made


def write(project: Project, channels: str, more: str = "") -> None:
    project.write(more + CONFIG + channels)


def hook(sink: Sink, name: str = "ops", more: str = "") -> str:
    return f'[notify.{name}]\nkind = "webhook"\nurl = "{sink.url}"\n{more}\n'


def states(project: Project) -> list[tuple[Any, ...]]:
    return project.query("select channel, state from stoker.outbox order by message")


def pass_time(project: Project) -> None:
    moved = "update stoker.channels set retry_at = now() - interval '1 s', claimed_until = now() - interval '1 s' returning 1"
    project.query(f"with moved as ({moved}) select count(*) from moved")


def test_a_fire_sends_its_note_itself(project: Project, sink: Sink) -> None:
    """For who has cron only: webhook, file and program, each once; the facts are those of the note."""
    program = '[notify.prog]\nkind = "command"\ncommand = ["/bin/sh", "-c", "cat > told"]\n'
    write(project, hook(sink) + '[notify.disk]\nkind = "file"\nfolder = "notes"\n' + program)
    project.enqueue("plain", 1)
    done = project.run("fire", "--exit-code")
    assert done.returncode == 0, done.stderr
    (told,) = sink.told
    assert json.loads(told.body)["note"] == project.facts(1)
    assert (project.folder / "notes" / "fire-1.md").read_text() == done.stdout
    assert json.loads((project.folder / "told").read_text())["fire"] == 1
    assert states(project) == [("ops", "delivered"), ("disk", "delivered"), ("prog", "delivered")]


def test_a_wrapped_job_and_a_task_alone_are_fires_like_any_other(project: Project, sink: Sink) -> None:
    """Their notes are sent at once, too."""
    write(project, hook(sink))
    assert project.run("wrap", "backup", "--", "/bin/true").returncode == 0
    (task,) = project.enqueue("plain", 1)
    assert project.run("tasks", "run", str(task), "--inline").returncode == 0
    assert [json.loads(one.body)["note"]["lane"] for one in sink.told] == ["backup", "inline"]


@pytest.mark.parametrize(
    ("mode", "status", "code"), [("plain", 500, 13), ("plain", 404, 13), ("plain", 204, 0), ("failing", 500, 10)]
)
def test_the_exit_code_says_whether_the_note_was_delivered(
    project: Project, sink: Sink, mode: str, status: int, code: int
) -> None:
    """13 with --exit-code; failed tasks are said first, and without the option the note alone counts."""
    write(project, hook(sink))
    sink.usual = status
    project.enqueue(mode, 1)
    done = project.run("fire", "--exit-code")
    assert done.returncode == code, done.stderr
    assert project.query("select count(*) from stoker.notes") == [(1,)]
    assert project.run("fire").returncode == 0


def test_a_channel_for_problems_gets_only_those(project: Project, sink: Sink) -> None:
    write(project, hook(sink, more='send = "problems"'))
    project.enqueue("plain", 1)
    assert project.run("fire", "--exit-code").returncode == 0
    project.enqueue("failing", 1)
    project.run("fire")
    assert [json.loads(one.body)["fire"] for one in sink.told] == [2]


def test_a_fire_ends_in_time_when_its_receiver_hangs(project: Project, sink: Sink) -> None:
    """R11: it waits fire_wait and no longer; the next deliverer sends the same again."""
    write(project, hook(sink, more='timeout = "5m"'), '[delivery]\nfire_wait = "500ms"\n')
    sink.answers = [HANG]
    began = time.monotonic()
    assert project.run("fire", "--exit-code").returncode == 13
    assert time.monotonic() - began < 20
    pass_time(project)
    assert project.run("deliver").stdout == "delivered 1 message(s)\n"
    assert sink.deliveries[0] == sink.deliveries[1]
    assert project.run("deliver").stdout == "delivered 0 message(s)\n"


def test_a_fire_that_is_killed_between_accept_and_record_costs_one_repetition(project: Project, sink: Sink) -> None:
    """R11: the note row is there once; the repetition has the same id."""
    write(project, hook(sink, more='timeout = "5m"'), '[delivery]\nfire_wait = "5m"\n')
    sink.answers = [HANG]
    fire = project.start("fire")
    wait_until(lambda: len(sink.told) == 1, 30, "the sink has it")
    fire.send_signal(signal.SIGKILL)
    fire.wait()
    assert states(project) == [("ops", "queued")]
    assert project.run("deliver").stdout == "delivered 0 message(s)\n"
    pass_time(project)
    assert project.run("deliver").stdout == "delivered 1 message(s)\n"
    assert len(set(sink.deliveries)) == 1
    assert len(sink.told) == 2
    assert project.query("select count(*) from stoker.notes") == [(1,)]


def test_a_fire_that_died_is_told_of_by_who_closes_it(project: Project, sink: Sink) -> None:
    """P4: by the channels that the dead fire's host had."""
    write(project, hook(sink))
    project.enqueue("gated", 1)
    fire = project.start("fire")
    project.wait_for_starts(1)
    keepers = project.keepers()
    for pid in (fire.pid, *keepers):
        os.kill(pid, signal.SIGKILL)
    fire.wait()
    write(project, "")
    assert project.run("sweep").returncode == 0
    assert states(project) == [("ops", "queued")]
    assert (
        "FAILED   delivery: Messages by ops: 1 wait. No channel of this name is configured here" in project.run("doctor").stdout
    )
    assert "no channel of this name is configured here" in project.run("outbox").stdout
    write(project, hook(sink))
    assert project.run("deliver").returncode == 0
    (told,) = sink.told
    assert json.loads(told.body)["note"]["ended"] == "reaped"


def test_what_stands_by_delivers_in_its_own_loop(project: Project, sink: Sink) -> None:
    """stoker run: what a fire could not deliver goes out when its receiver is well again; its heart beats."""
    write(project, hook(sink), '[delivery]\nfire_wait = "0s"\nevery = "100ms"\nbackoff_base = "100ms"\nbackoff_cap = "100ms"\n')
    sink.usual = 500
    assert project.run("fire", "--exit-code").returncode == 13
    assert sink.told == []
    standing = project.start("run")
    wait_until(lambda: len(sink.told) >= 3, 30, "three tries")
    sink.usual = 200
    wait_until(lambda: states(project) == [("ops", "delivered")], 30, "it is delivered")
    assert len(set(sink.deliveries)) == 1
    assert project.query("select count(*) from stoker.heartbeats where component = 'delivery'") == [(1,)]
    standing.send_signal(signal.SIGTERM)
    assert standing.wait(30) == 0


def test_dead_letters_are_seen_retried_and_dropped_by_people(project: Project, sink: Sink) -> None:
    """Where one looks: status, doctor, the list; what was done to them stands in the events."""
    write(project, hook(sink))
    sink.usual = 404
    for _ in range(2):
        project.run("fire")
    rows = project.json("outbox", "ls", "--state", "dead")
    assert [(row["channel"], row["fire"], row["error"]) for row in rows] == [
        ("ops", 2, "the answer was 404"),
        ("ops", 1, "the answer was 404"),
    ]
    assert "the answer was 404" in project.run("outbox").stdout
    words = "Messages by ops: 2 could not be delivered; last: the answer was 404"
    assert f"{words}. See: stoker outbox" in project.run("status").stdout
    assert project.json("status")["undelivered"][0]["dead"] == 2
    assert f"FAILED   delivery: {words}" in project.run("doctor").stdout
    sink.usual = 200
    assert project.run("outbox", "drop", "1", "--reason", "told by telephone", "--by", "ann").returncode == 0
    assert project.json("outbox", "retry", "--all-dead", "--by", "ann") == {"queued": [2], "not_moved": []}
    assert project.run("deliver").stdout == "delivered 1 message(s)\n"
    assert states(project) == [("ops", "dropped"), ("ops", "delivered")]
    events = [(one["action"], one["actor"], one["reason"]) for one in project.json("events")]
    assert events == [("message retried", "ann", None), ("message dropped", "ann", "told by telephone")]
    for wrong in (["drop", "2", "--reason", "x"], ["drop", "9", "--reason", "x"], ["retry", "2"], ["retry"]):
        assert project.run("outbox", *wrong).returncode == 2


def test_messages_of_a_channel_that_was_taken_out_are_seen_and_can_be_given_up(project: Project, sink: Sink) -> None:
    """They wait, untried, since another host may have it; every place where one looks says so, and what to do."""
    write(project, hook(sink) + hook(sink, "boss"))
    sink.usual = 500
    for _ in range(2):
        project.run("fire")
    write(project, hook(sink))
    hint = "No channel of this name is configured here: if no other host has it, put it back, or give them up"
    assert hint in project.run("status").stdout
    assert hint in project.run("doctor").stdout
    assert "no channel of this name is configured here" in project.run("outbox").stdout
    project.query("update stoker.outbox set attempts = 0, last_error = null, created_at = now() - interval '2 h' returning 1")
    project.run("fire")
    needs = [need["text"] for need in project.facts()["needs"] if need["what"] == "not delivered"]
    assert "Messages by boss: 2 wait, the oldest for 2h. See: stoker outbox" in needs
    for wrong in (["--reason", "x"], ["1", "--channel", "boss", "--reason", "x"], ["--channel", "boss", "--reason", " "]):
        assert project.run("outbox", "drop", *wrong).returncode == 2
    done = project.run("outbox", "drop", "--channel", "boss", "--reason", "nobody reads it", "--by", "ann")
    assert done.stdout + done.stderr == "dropped 2 message(s) by boss\n"
    assert project.query("select count(*) from stoker.outbox where channel = 'boss' and state <> 'dropped'") == [(0,)]
    assert [(one["action"], one["actor"]) for one in project.json("events")][:2] == [("message dropped", "ann")] * 2
    assert "boss" not in project.run("status").stdout


def test_a_person_can_have_a_waiting_message_tried_at_once(project: Project, sink: Sink) -> None:
    write(project, hook(sink))
    sink.answers = [500]
    project.run("fire")
    assert project.run("deliver").stdout == "delivered 0 message(s)\n"
    assert project.run("outbox", "retry", "1").returncode == 0
    assert project.run("deliver").stdout == "delivered 1 message(s)\n"


def test_a_channel_is_tried_by_a_message_that_says_so(project: Project, sink: Sink) -> None:
    """Past the outbox: it is there or it is not, and why not."""
    write(project, hook(sink))
    done = project.run("notify", "test", "ops")
    assert done.returncode == 0
    assert json.loads(sink.told[0].body)["kind"] == "test"
    assert sink.told[0].delivery in done.stdout
    sink.usual = 401
    done = project.run("notify", "test", "ops")
    assert (done.returncode, done.stdout) == (1, "not sent by ops: the answer was 401\n")
    assert project.run("notify", "test", "other").returncode == 2
    assert states(project) == []


def test_after_a_restore_nothing_goes_out_before_a_person_says_so(project: Project, sink: Sink) -> None:
    """What waited when the dump was made was perhaps sent since."""
    write(project, hook(sink), '[delivery]\nfire_wait = "0s"\n')
    project.run("fire")
    assert project.json("restored")["messages"] == 1
    assert project.run("deliver").stdout == "delivered 0 message(s)\n"
    assert "1 held after a restore" in project.run("status").stdout
    assert project.json("outbox", "retry", "--all-held")["queued"] == [1]
    assert project.run("deliver").stdout == "delivered 1 message(s)\n"


def test_no_secret_of_a_channel_is_shown_anywhere(project: Project, sink: Sink) -> None:
    """P9, T08: not in logs, in the list, in the database, in the configuration as it is shown."""
    (project.folder / "key").write_text("CanaryKey")
    (project.folder / "password").write_text("CanaryPw")
    mail = '[notify.mail]\nkind = "mail"\nmail_to = ["a@example.org"]\nmail_from = "b@example.org"\nsmtp_host = "127.0.0.1"\n'
    mail += 'smtp_port = 1\nsmtp_user = "u"\nsmtp_password_file = "password"\n'
    secret_url = sink.url + "/CanaryToken?key=CanaryQuery"
    channel = f'[notify.ops]\nkind = "webhook"\nurl = "{secret_url}"\nsecret_file = "key"\n'
    write(project, channel + mail, '[log]\nlevel = "debug"\n')
    sink.usual = 500
    done = project.run("fire")
    seen = [done.stdout, done.stderr]
    for command in ("status", "outbox", "outbox ls --json", "config", "config --json", "doctor", "note", "notify test ops"):
        shown = project.run(*command.split())
        seen += [shown.stdout, shown.stderr]
    tables = ("outbox", "channels", "fires", "notes", "events")
    seen += [text for table in tables for (text,) in project.query(f"select t::text from stoker.{table} t")]
    assert "the answer was 500" in "".join(seen)
    assert "Canary" not in "".join(seen)


def test_a_closed_gate_keeps_notes_until_it_is_open(project: Project, sink: Sink) -> None:
    write(project, hook(sink), '[delivery]\nfire_wait = "0s"\n')
    project.run("fire")
    project.run("gate", "close", "--reason", "test")
    assert project.run("deliver").stdout == "delivered 0 message(s)\n"
    project.run("gate", "open")
    assert project.run("deliver").stdout == "delivered 1 message(s)\n"


def test_a_misspelt_channel_stops_the_start(project: Project, tmp_path: Path) -> None:
    write(project, '[notify.ops]\nkind = "webhok"\n')
    done = project.run("fire")
    assert done.returncode == 2
    assert "notify.ops.kind: must be one of file, command, webhook, mail, apprise" in done.stderr
    write(project, '[notify.ops]\nkind = "file"\nfoldr = "x"\n')
    assert "notify.ops.foldr: unknown key; did you mean folder?" in project.run("fire").stderr
