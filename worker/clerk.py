"""The keeper's clerk: what a task needs of the database while it runs.

Steps are answered, progress is written, and who is called off is looked for. All of it under the claim's token, and
beside the shift's own work: a slow database delays an answer, and no answer delays a settlement. A worker whose tasks
are all quick asks the database for nothing here.
"""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio

from stoker.worker.book import Book
from stoker.worker.notices import Notices, Question, Subject

if TYPE_CHECKING:
    from stoker.worker.desk import Desk
    from stoker.worker.shift import Insist, Shift

_LOOK_SECONDS = 1.0


class Clerk:
    """``answer`` takes the number of a runner and a line for it."""

    def __init__(self, notices: Notices, book: Book, desk: "Desk", insist: "Insist", shift: "Shift", answer: Any) -> None:
        self._notices = notices
        self._book = book
        self._desk = desk
        self._insist = insist
        self._shift = shift
        self._answer: Callable[[int, bytes], Any] = answer
        self._asked = anyio.Event()
        notices.ring = lambda: self._asked.set()

    async def answer(self) -> None:
        """Answer questions in their order, as long as the keeper lives."""
        while True:
            await self._asked.wait()
            self._asked = anyio.Event()
            while self._notices.questions:
                await self._see_to(self._notices.questions.popleft())

    async def look(self) -> None:
        """Once a second: write progress, and ask whether a task is called off that was held a second ago already."""
        held = set[str]()
        while True:
            await anyio.sleep(_LOOK_SECONDS)
            if self._notices.progress:
                await self._write_progress()
            before, held = held, {claim.token for claim in self._book.claims}
            if (still := held & before) and (tasks := await self._insist(partial(self._desk.called_off, sorted(still)))):
                self._shift.call_off(tasks)

    async def _see_to(self, question: Question) -> None:
        """A line with the question's number and the answer: null when the task is over, or somebody else's by now."""
        text, subject = None, question.subject
        if subject is not None and question.kind == "steps":
            text = await self._insist(partial(self._desk.steps, subject))
        elif subject is not None and question.kind == "step":
            text = await self._insist(partial(self._desk.keep_step, subject, *question.facts))
        if text is None and self._is_held(subject):
            self._shift.fence()
        await self._answer(question.runner, f"[{question.number},{text or 'null'}]\n".encode())

    def _is_held(self, subject: Subject | None) -> bool:
        """Whether we believe to hold it: what has ended here while the database was asked was rightly refused."""
        found = self._book.locate(subject.id) if subject else None
        return found is not None and subject is not None and found[0].token == subject.token and found[0].is_open(found[1])

    async def _write_progress(self) -> None:
        words, self._notices.progress = list(self._notices.progress.values()), {}
        await self._insist(partial(self._desk.tell, words))
