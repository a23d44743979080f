"""What a runner says of one task that is more than plainly done, noted in the task's entry: the words on its pipe.

["done", number, result, label, seconds]
["failed", number, kind, text, is_permanent, seconds]
["ended", number, {"said": ..., ...}, seconds]          an outcome, by the names of Outcome.facts
"""

from typing import Any

from stoker.worker.book import DONE, FAILED, Entry

_FACTS = frozenset({"said", "result", "label", "delay", "until", "error_kind", "error", "is_permanent", "is_retriable", "then"})


def note(entry: Entry, message: list[Any]) -> None:
    """Take one message; what it says becomes the verdict when the task is counted as over."""
    match message:
        case ["done", _, result, label, seconds]:
            entry.said, entry.result, entry.label, entry.seconds = DONE, result, label, seconds
        case ["failed", _, kind, text, permanent, seconds]:
            entry.said, entry.error_kind, entry.error, entry.seconds = FAILED, kind, text, seconds
            entry.is_permanent = permanent
        case ["ended", _, dict(facts), seconds]:
            entry.seconds = seconds
            for name in facts.keys() & _FACTS:
                setattr(entry, name, facts[name])
        case _:
            return
