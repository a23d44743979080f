"""What a keeper learns of its runner: tasks that are over, and how a runner ended."""

from dataclasses import dataclass, field

from stoker.worker.book import Claim, Entry


@dataclass(slots=True)
class Over:
    """Tasks that are over: how many, the seconds all of them took, and the entries of those of which more was said."""

    tasks: int = 0
    seconds: float = 0.0
    entries: list[Entry] = field(default_factory=list)

    def add(self, more: "Over") -> None:
        """Count others in."""
        self.tasks += more.tasks
        self.seconds += more.seconds
        self.entries += more.entries


@dataclass(slots=True)
class Death:
    """How a runner ended: "SIGKILL", "exit status 3"; the tasks it was running, with the seconds; what was over till then."""

    how: str
    running: list[tuple[Entry, float]]
    over: Over


def sum_up(finished: list[tuple[Claim, int, list[Entry]]], took: float) -> Over:
    """What was finished, in ``took`` seconds: the tasks whose own time was not kept share what the others left of it."""
    over = Over(sum(tasks for _, tasks, _ in finished), max(took, 0.0), [e for _, _, ended in finished for e in ended])
    kept = [entry.seconds for entry in over.entries if entry.seconds is not None]
    share = max(took - sum(kept), 0.0) / max(over.tasks - len(kept), 1)
    for claim, tasks, ended in finished:
        claim.busy_seconds += share * (tasks - sum(entry.seconds is not None for entry in ended))
    return over
