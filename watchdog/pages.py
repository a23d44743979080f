"""What is told of an incident at one time, as each kind of receiver wants it."""

from dataclasses import dataclass
from typing import Any

TRIGGER, ESCALATE, ACKNOWLEDGE, RESOLVE = "trigger", "escalate", "acknowledge", "resolve"
DRILL = "drill "  # begins the cause of what is not real
_SAID = {TRIGGER: "wrong", ESCALATE: "ESCALATED", ACKNOWLEDGE: "acknowledged", RESOLVE: "resolved"}


class PageError(Exception):
    """A page that a channel did not take; the text says why, without what is secret.

    ``in_doubt``: it may have arrived all the same.
    """

    def __init__(self, why: str, *, in_doubt: bool = False) -> None:
        super().__init__(why)
        self.in_doubt = in_doubt


@dataclass(frozen=True, slots=True)
class NotTaken:
    """Why a channel did not take a page, on one line; ``in_doubt``: it may have arrived, and is told that it is over."""

    why: str
    in_doubt: bool = False

    def __str__(self) -> str:
        return self.why


@dataclass(frozen=True, slots=True)
class Page:
    """``action`` is trigger, escalate, acknowledge or resolve; ``cause`` names the incident on the other side too.

    ``delivery_id`` is the same at every try.
    """

    action: str
    cause: str
    words: str
    installation: str
    delivery_id: str
    number: int = 1

    @property
    def key(self) -> str:
        """The same for every page of one incident's cause."""
        return f"stoker {self.installation} {self.cause}"

    @property
    def is_drill(self) -> bool:
        """Whether nothing is wrong."""
        return self.cause.startswith(DRILL)

    @property
    def text(self) -> str:
        """For people; what is only tried says so."""
        return f"DRILL, nothing is wrong: {self.words}" if self.is_drill else self.words

    @property
    def subject(self) -> str:
        """One line."""
        line = f"[stoker] {'DRILL ' if self.is_drill else ''}{_SAID[self.action]}: {self.cause}"
        return " ".join(line.split())

    def as_json(self) -> dict[str, Any]:
        """For programs."""
        return {
            "action": self.action,
            "cause": self.cause,
            "text": self.text,
            "installation": self.installation,
            "key": self.key,
            "number": self.number,
            "delivery_id": self.delivery_id,
            "drill": self.is_drill,
        }
