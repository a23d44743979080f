"""A message as every channel gets it, and how a try may fail."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from stoker.orchestrator.render import inert, markdown
from stoker.worker.redact import bounded, redact

_SUBJECT_LENGTH = 200
_ERROR_LENGTH = 400


@dataclass(frozen=True, slots=True)
class Message:
    """What is sent. ``name`` is a word for files.

    ``seconds``: since 1970, when it was taken to be sent, by the database's clock.
    """

    delivery_id: str
    kind: str
    name: str
    subject: str
    text: str
    facts: dict[str, Any]
    seconds: float = 0.0

    def as_json(self) -> dict[str, Any]:
        """For programs: what it is, what a person reads, and the facts."""
        return {
            "kind": self.kind,
            "delivery_id": self.delivery_id,
            "subject": self.subject,
            "text": self.text,
            **self.facts,
        }


class NotSentError(Exception):
    """A try that failed; the text says why, bounded and without what looks secret: that is seen to here, for all of them.

    ``permanent``: trying again cannot help. ``in_doubt``: it may have been received all the same. ``rest``: the seconds after
    which the other side wants to be asked again.
    """

    def __init__(self, why: str, *, permanent: bool = False, in_doubt: bool = False, rest: float | None = None) -> None:
        self.permanent = permanent
        self.in_doubt = in_doubt
        self.rest = rest
        super().__init__(bounded(redact(why), _ERROR_LENGTH))


def of_note(delivery_id: str, facts: dict[str, Any], seconds: float) -> Message:
    """The message of one note."""
    text = markdown(facts)
    subject = text.partition("\n")[0].removeprefix("# ")
    content = {"fire": facts["fire"], "note": facts}
    return Message(delivery_id, "note", f"fire-{facts['fire']}", _subject(subject), text, content, seconds)


def of_digest(delivery_id: str, notes: Sequence[tuple[int, str, str, datetime]], total: int, seconds: float) -> Message:
    """One message for several notes that could not be sent in time: (fire, lane, verdict, when it closed), the oldest first."""
    words = f"{total} notes that could not be sent in time"
    lines = [
        f"- Fire {fire}, lane {inert(lane)}, closed {at.astimezone(UTC):%Y-%m-%d %H:%M} UTC: {inert(verdict, 400)}"
        for fire, lane, verdict, at in notes
    ]
    if total > len(notes):
        lines.append(f"- and {total - len(notes):,} more. See: stoker fires ls")
    text = f"# {words}\n\n" + "\n".join(lines) + "\n\nEach is shown by: stoker note NUMBER\n"
    names = ("fire", "lane", "verdict", "closed_at")
    listed = [dict(zip(names, note, strict=True)) for note in notes]
    facts = {"fires": [fire for fire, *_ in notes], "total": total, "notes": listed}
    return Message(delivery_id, "digest", f"digest-{delivery_id}", _subject(words), text, facts, seconds)


def of_test(delivery_id: str, channel: str, host: str) -> Message:
    """A message that says of itself that it is a test."""
    words = f"This is a test of channel {channel} by stoker on {host}; nothing happened."
    seconds = datetime.now(UTC).timestamp()
    return Message(delivery_id, "test", f"test-{delivery_id}", _subject("test"), f"# Test\n\n{words}\n", {}, seconds)


def _subject(words: str) -> str:
    return f"[stoker] {inert(words, _SUBJECT_LENGTH)}"
