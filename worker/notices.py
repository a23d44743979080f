"""What runners ask and tell in the middle of a task, until the clerk has seen to it. Pure bookkeeping.

["steps", number, task, question]                                    which steps are finished
["step", number, task, question, name, result, fraction or None]     this one is
["progress", number, task, fraction, text]                           no answer is waited for
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from stoker.worker.book import Claim
from stoker.worker.redact import bounded

LONGEST_TEXT = 200


@dataclass(frozen=True, slots=True)
class Subject:
    """The task that is spoken of, and the token under which it is held."""

    token: str
    id: int
    attempt: int


@dataclass(frozen=True, slots=True)
class Question:
    """One question of the ``runner``-th runner, by its number; without a subject, of a task that is not held any more."""

    kind: str
    subject: Subject | None
    number: int
    facts: list[Any]
    runner: int


@dataclass(slots=True)
class Notices:
    """Questions in their order; of progress the latest of each task. ``ring`` is called for each question."""

    questions: deque[Question] = field(default_factory=deque)
    progress: dict[int, tuple[Subject, float, str]] = field(default_factory=dict)
    ring: Callable[[], None] = lambda: None

    def hear(self, message: list[Any], found: tuple[Claim, int] | None, runner: int) -> None:
        """Take one message about the task at a place of a claim, if it was found."""
        match message:
            case ["progress", _, int(task), float(fraction), str(text)]:
                if subject := _subject(found, task):
                    self.tell(subject, fraction, text)
            case [str(kind), _, int(task), int(number), *facts]:
                self.questions.append(Question(kind, _subject(found, task), number, facts, runner))
                self.ring()
            case _:
                return

    def tell(self, subject: Subject, fraction: float, text: str) -> None:
        """How far a task is."""
        self.progress[subject.id] = subject, fraction, bounded(text, LONGEST_TEXT)


def _subject(found: tuple[Claim, int] | None, task: int) -> Subject | None:
    if found is None or not found[0].is_open(found[1]):
        return None
    entry = found[0].entry(found[1])
    return Subject(found[0].token, task, entry.attempt) if entry.id == task else None
