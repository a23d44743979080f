"""The example that sends mail, against a real SMTP server, killed between what the server accepts and what is recorded."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.end_to_end.project import Project
from tests.sinks import DROP, Mailbox, smtp_sink

EXAMPLE = Path(__file__).parents[2] / "examples" / "mail"
LETTER = {"to": "ann@example.org", "subject": "Hello", "text": "It works."}

# Kills the runner, once, when the server has accepted the letter, before that is recorded; or just after it is.
KILLER = """
import os, signal
from pathlib import Path
import mail
from stoker.worker.task import Task

HERE, WHEN = Path(__file__).parent, os.environ["KILL"]
hand_over, step = mail.hand_over, Task.step


def die():
    try:
        (HERE / "killed").touch(exist_ok=False)
    except FileExistsError:
        return
    os.kill(os.getpid(), signal.SIGKILL)


def handing(*what):
    if WHEN == "before":
        die()
    hand_over(*what)
    if WHEN == "between":
        die()


def stepping(self, name, work):
    result = step(self, name, work)
    if name == "sent" and WHEN == "after":
        die()
    return result


def send(task):
    mail.hand_over, Task.step = handing, stepping
    return mail.send(task)
"""


@pytest.fixture
def box() -> Iterator[Mailbox]:
    with smtp_sink() as made:
        yield made


def prepare(project: Project, handler: str = "mail:send") -> None:
    shutil.copy(EXAMPLE / "mail.py", project.folder)
    (project.folder / "killer.py").write_text(KILLER)
    config = (EXAMPLE / "config.toml").read_text().replace("mail:send", handler).replace('"30s"', '"10ms"')
    project.write('[worker]\nlinger = "100ms"\n' + config.replace('"MAIL_TLS"', '"MAIL_TLS", "KILL"'))


def fire(project: Project, box: Mailbox, **more: str) -> None:
    where = {"MAIL_SERVER": f"127.0.0.1:{box.port}", "MAIL_FROM": "shop@example.org", "MAIL_TLS": "no"}
    done = project.run("fire", **where, **more)
    assert done.returncode == 0, done.stderr


def status(project: Project, task: int) -> str:
    ((found,),) = project.query("select status from stoker.task_queue where id = %s", task)
    return str(found)


def test_a_letter_is_sent_once(project: Project, box: Mailbox) -> None:
    prepare(project)
    (task,) = project.enqueue("mail", LETTER)
    fire(project, box)
    (mail,) = box.mails
    assert (mail["Subject"], mail["To"]) == ("Hello", "ann@example.org")
    ((result,),) = project.query("select result from stoker.outcomes where lo = %s", task)
    assert box.ids == [result["message_id"]]


@pytest.mark.parametrize(("kill", "mails"), [("before", 1), ("between", 2), ("after", 1)])
def test_kill_9_costs_a_repetition_only_in_the_gap_and_under_the_same_id(
    project: Project, box: Mailbox, kill: str, mails: int
) -> None:
    """P3: what is recorded is not sent again; what cannot be known is repeated so that it can be known for a repetition."""
    prepare(project, "killer:send")
    (task,) = project.enqueue("mail", LETTER)
    for _ in range(2):
        fire(project, box, KILL=kill)
    assert status(project, task) == "done"
    assert len(box.mails) == mails
    assert len(set(box.ids)) == 1


@pytest.mark.parametrize(("answer", "mails"), [("sent", 1), ("again", 2)])
def test_a_person_decides_about_what_is_in_doubt(project: Project, box: Mailbox, answer: str, mails: int) -> None:
    """MAIL_IN_DOUBT=ask: nothing is sent twice unless somebody says so."""
    prepare(project, "killer:send")
    (task,) = project.enqueue("mail", LETTER)
    for _ in range(2):
        fire(project, box, KILL="between", MAIL_IN_DOUBT="ask")
    assert (status(project, task), len(box.mails)) == ("held", 1)
    assert project.run("tasks", "resume", str(task), "--answer", answer).returncode == 0
    fire(project, box, KILL="between", MAIL_IN_DOUBT="ask")
    assert status(project, task) == "done"
    assert len(box.mails) == mails


@pytest.mark.parametrize(
    ("answer", "found", "mails"), [("451 later", "done", 1), ("554 never", "failed", 0), (DROP, "done", 2)]
)
def test_a_refusal_leaves_nothing_in_doubt_and_a_lost_answer_does(
    project: Project, box: Mailbox, answer: str, found: str, mails: int
) -> None:
    prepare(project)
    (task,) = project.enqueue("mail", LETTER)
    box.answers = [answer]
    for _ in range(2):
        fire(project, box)
    assert (status(project, task), len(box.mails)) == (found, mails)
    names = [name for (name,) in project.query("select name from stoker.steps order by finished_at")]
    assert names[:2] == (["try 1", "refused 1"] if answer != DROP else ["try 1", "try 2"])


def test_the_example_in_the_page_is_the_example() -> None:
    """The README and the configuration name what mail.py reads."""
    read = (EXAMPLE / "mail.py").read_text()
    for name in ("MAIL_SERVER", "MAIL_FROM", "MAIL_USER", "MAIL_PASSWORD_FILE", "MAIL_IN_DOUBT"):
        assert name in read
        assert name in (EXAMPLE / "README.md").read_text()
        assert name in (EXAMPLE / "config.toml").read_text()
