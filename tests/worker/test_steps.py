"""The runner's line to its keeper, with a test at the other end."""

import contextlib
import json
import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from stoker.worker.capture import Voice
from stoker.worker.runner import Runner, send
from stoker.worker.slate import Slate, create
from stoker.worker.steps import Line, StepError
from stoker.worker.task import Task


@dataclass
class Ends:
    """A line, and the keeper's ends of its pipes."""

    line: Line
    task: Task[None]
    messages: int
    answers: int
    acks: int


@pytest.fixture
def ends() -> Iterator[Ends]:
    """A runner that runs task 5, which its keeper knows as number 1."""
    messages, acks = os.pipe()
    theirs, answers = os.pipe()

    class Host:
        steps = ()

        def send(self, message: list[Any]) -> None:
            send(acks, message)

    host: Any = Host()
    host.acks, host.answers = acks, theirs
    task = Task(5, "m", None, 1, "")
    task.number = 1
    made = Ends(Line(host), task, messages, answers, acks)
    yield made
    for descriptor in {messages, acks, theirs, made.answers} - {-1}:
        os.close(descriptor)


def test_an_answer_that_nobody_waits_for_any_more_is_passed_over(ends: Ends) -> None:
    """A handler's own alarm may have interrupted the wait; the next question gets its own answer."""
    os.write(ends.answers, b'[0,{"old":1}]\n[1,{"a":1}]\n[2,tr')
    assert ends.line.ask("steps", ends.task) == {"a": 1}
    os.write(ends.answers, b"ue]\n")
    assert ends.line.ask("step", ends.task, "b", "1", None) is True
    said = [json.loads(line) for line in os.read(ends.messages, 1000).splitlines()]
    assert said == [["steps", 1, 5, 1], ["step", 1, 5, 2, "b", "1", None]]


def test_a_refusal_and_a_keeper_that_is_gone_are_errors(ends: Ends) -> None:
    """Neither is taken for an answer."""
    os.write(ends.answers, b"[1,null]\n")
    with pytest.raises(StepError, match="not this worker's any more"):
        ends.line.ask("steps", ends.task)
    os.close(ends.answers)
    ends.answers = -1
    with pytest.raises(StepError, match="keeper of this worker is gone"):
        ends.line.ask("steps", ends.task)


def test_progress_is_told_at_most_twenty_times_a_second(ends: Ends) -> None:
    """Each task has a pause of its own."""
    other = Task(6, "m", None, 1, "")
    other.number = 2
    for n in range(100):
        ends.line.tell(ends.task, n / 100, "")
        ends.line.tell(other, n / 100, "")
    said = [json.loads(line) for line in os.read(ends.messages, 1 << 16).splitlines()]
    assert 2 <= len(said) <= 10
    assert {message[2] for message in said} == {5, 6}


def test_progress_never_waits_for_a_keeper_that_does_not_read(ends: Ends) -> None:
    """It is left unsaid."""
    os.set_blocking(ends.acks, False)
    with contextlib.suppress(BlockingIOError):
        while os.write(ends.acks, b"x" * 4096):
            continue
    os.set_blocking(ends.acks, True)
    ends.line.tell(ends.task, 0.5, "")


def test_threads_do_not_write_into_each_others_messages() -> None:
    """P1: also when a message is longer than a pipe takes in one go."""
    reader, writer = os.pipe()
    page = create()
    hello: dict[str, Any] = dict.fromkeys(("mode", "installation", "errors", "label"), "")
    hello |= {"modes": {}, "payload_limit": 1, "result_limit": 1, "timer_seconds": None, "concurrency": 1, "secret_names": []}
    runner = Runner({**hello, "retry_on": [], "fail_on": [], "steps": []}, print, writer, Slate(page), Voice("nonce"))
    threads = [threading.Thread(target=runner.send, args=([f"{n}" * 300_000],)) for n in range(4)]
    for thread in threads:
        thread.start()
    data = bytearray()
    while data.count(b"\n") < 4:
        data += os.read(reader, 5000)
    for thread in threads:
        thread.join()
    assert sorted(json.loads(line)[0][0] for line in data.splitlines()) == ["0", "1", "2", "3"]
    for descriptor in (reader, writer, page):
        os.close(descriptor)
