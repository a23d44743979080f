"""What the clerk does with an answer, and with none: the database itself is asked in tests/sql and tests/end_to_end."""

from collections.abc import Callable
from typing import Any, cast

import anyio
import anyio.lowlevel
import pytest

from stoker.worker.book import DONE, Book, Chunk, Claim
from stoker.worker.clerk import Clerk
from stoker.worker.notices import Notices


class Desks:
    """A desk that knows ``steps``, and counts what it is asked."""

    def __init__(self, steps: str | None) -> None:
        self._steps = steps
        self.asked: list[Any] = []
        self.then: Callable[[], None] = lambda: None

    def steps(self, subject: Any) -> str | None:
        self.asked.append(subject)
        self.then()
        return self._steps


class Fences:
    """A shift that only notes that it was fenced."""

    is_fenced = False

    def fence(self) -> None:
        self.is_fenced = True


def asked(message: list[Any], desk: Desks, *, ends: bool = False) -> tuple[list[tuple[int, bytes]], bool]:
    """What the second runner is told to ``message``, and whether the worker is fenced. The task may end meanwhile."""
    book, claim = Book(), Claim("token", [(5, 6, 0)], [Chunk(2, "1,2")], started=True)
    book.claims.append(claim)
    book.feed(claim, 1.0)
    claim.end(1)
    notices, shift, answers = Notices(), Fences(), list[tuple[int, bytes]]()
    if ends:
        desk.then = lambda: (setattr(claim.entry(0), "said", DONE), claim.end(0), None)[-1]

    async def insist(work: Callable[[], Any], /) -> Any:
        return work()

    async def answer(runner: int, line: bytes) -> None:
        answers.append((runner, line))

    async def run() -> None:
        clerk = Clerk(notices, book, cast(Any, desk), insist, cast(Any, shift), answer)
        notices.hear(message, book.find(message[1]), 2)
        with anyio.move_on_after(5):
            async with anyio.create_task_group() as group:
                group.start_soon(clerk.answer)
                while not answers:
                    await anyio.lowlevel.checkpoint()
                group.cancel_scope.cancel()

    anyio.run(run)
    return answers, shift.is_fenced


def test_an_answer_goes_to_the_runner_that_asked_with_the_questions_number() -> None:
    """One that was interrupted asks again under another."""
    desk = Desks('{"a":1}')
    assert asked(["steps", 1, 5, 7], desk) == ([(2, b'[7,{"a":1}]\n')], False)
    assert (desk.asked[0].token, desk.asked[0].id, desk.asked[0].attempt) == ("token", 5, 1)


@pytest.mark.parametrize("message", [["steps", 1, 6, 7], ["steps", 9, 5, 7], ["steps", 2, 6, 7]])
def test_a_question_about_a_task_that_is_not_that_one_is_refused_and_asks_nobody(message: list[Any]) -> None:
    """P2: a handler that keeps an old task writes nothing into the one that runs now, nor into one that is over."""
    desk = Desks("{}")
    assert asked(message, desk) == ([(2, b"[7,null]\n")], False)
    assert desk.asked == []


def test_who_is_refused_what_it_believes_to_hold_is_fenced() -> None:
    """P2: its claim was released. One whose task has ended meanwhile was rightly refused, and works on."""
    assert asked(["steps", 1, 5, 7], Desks(None)) == ([(2, b"[7,null]\n")], True)
    assert asked(["steps", 1, 5, 7], Desks(None), ends=True) == ([(2, b"[7,null]\n")], False)
