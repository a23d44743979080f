"""What a person does to tasks: which are meant, what would happen, and the moves themselves in bounded batches.

The database moves each task, or leaves it, and writes the event in the same transaction; nothing here decides that.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stoker.sql.database import Database, Transaction

AT_ONCE = 500
"""Tasks a transaction: each is its own commit, so that nobody waits long and what is done stays done."""


@dataclass(frozen=True, slots=True)
class Verb:
    """One thing a person can do: its statement, what each state becomes by it, and which states filters look for.

    ``held`` narrows what is held to some kinds; ``unmeant`` are states that must be named for filters to mean them.
    """

    name: str
    statement: str
    becomes: Mapping[str, str]
    held: tuple[str, ...] | None = None
    unmeant: frozenset[str] = frozenset()

    def states(self, wanted: str | None) -> list[str]:
        """The states that filters look for."""
        return [wanted] if wanted else [state for state in self.becomes if state not in self.unmeant]

    def foresees(self, task: "Standing", become: str | None) -> str | None:
        """What a task would become; None: it would be left."""
        if task.state not in self.becomes or (task.state == "held" and self.held and task.held_for not in self.held):
            return None
        return become or self.becomes[task.state]


_ALIVE = dict.fromkeys(("queued", "held", "unknown"), "cancelled")
_ENDS = dict.fromkeys(("done", "failed", "cancelled", "expired"), "erased")
_ASKED = ("question", "operator", "restored")
RETRY = Verb("retry", "retry_tasks", {"failed": "queued", "cancelled": "queued"}, unmeant=frozenset({"cancelled"}))
CANCEL = Verb("cancel", "cancel_tasks", {**_ALIVE, "in_progress": "requested"}, unmeant=frozenset({"unknown"}))
RELEASE = Verb("release", "release_tasks", {"unknown": "released"})
APPROVE = Verb("approve", "approve_tasks", {"held": "queued"}, held=("approval",))
HOLD = Verb("hold", "hold_tasks", {"queued": "held"})
RESUME = Verb("resume", "resume_tasks", {"held": "queued"}, held=_ASKED)
ERASE = Verb("erase", "erase_tasks", _ENDS)


@dataclass(frozen=True, slots=True)
class Standing:
    """A task as it stands: its state, and for what it is held if it is."""

    id: int
    state: str
    mode: str
    held_for: str | None


@dataclass(frozen=True, slots=True)
class Filters:
    """Which tasks are meant, when they are not named: all that is given must be true."""

    mode: str | None = None
    state: str | None = None
    older_seconds: float | None = None
    kind: str | None = None
    tag: str | None = None
    key: str | None = None

    @property
    def is_empty(self) -> bool:
        """Nothing is given."""
        return self == Filters()


@dataclass(slots=True)
class Moved:
    """What became of each task: what it was, and what it became (None: it was left)."""

    tasks: list[tuple[int, str, str | None]] = field(default_factory=list)

    @property
    def changed(self) -> dict[str, int]:
        """How many became what."""
        return dict(sorted(Counter(became for _, _, became in self.tasks if became).items()))

    @property
    def unchanged(self) -> dict[str, int]:
        """How many were left, by what they are."""
        return dict(sorted(Counter(was for _, was, became in self.tasks if not became).items()))


def find(database: "Database", verb: Verb, filters: Filters) -> list[Standing]:
    """The tasks that filters mean, oldest first."""
    return database.rows(
        Standing, "find_ids", states=verb.states(filters.state), held=list(verb.held) if verb.held else None,
        mode=filters.mode, kind=filters.kind, tag=filters.tag, key=filters.key, older=filters.older_seconds,
    )  # fmt: skip


def look(database: "Database", ids: Sequence[int]) -> list[Standing]:
    """The tasks with these ids. One that is missing is not among them."""
    return [one for some in _batches(ids) for one in database.rows(Standing, "look_states", ids=some)]


def foresee(verb: Verb, tasks: Sequence[Standing], become: str | None = None) -> Moved:
    """What would become of them as they stand now. ``become``: instead of what the verb itself says."""
    return Moved([(task.id, task.state, verb.foresees(task, become)) for task in tasks])


def move(database: "Database", verb: Verb, ids: Sequence[int], parameters: Mapping[str, Any]) -> Iterator[Moved]:
    """Do it, a batch a transaction; yields after each commit. What ended lets the next of its line come.

    Of what was asked of a worker it looks once more, in a transaction of its own: the task may be back in the queue.
    """
    for some in _batches(ids):
        moved = _once(database, verb, some, parameters)
        if asked := [task for task, _, became in moved.tasks if became == "requested"]:
            again = {one[0]: one for one in _once(database, verb, asked, parameters).tasks}
            moved.tasks = [again.get(one[0], one) for one in moved.tasks]
        yield moved


def _once(database: "Database", verb: Verb, ids: list[int], parameters: Mapping[str, Any]) -> Moved:
    def work(transaction: "Transaction") -> Moved:
        moved = Moved([(task, was, became) for task, was, became in transaction.run(verb.statement, ids=ids, **parameters)])
        if ended := [task for task, _, became in moved.tasks if became in ("cancelled", "failed", "done", "erased")]:
            transaction.run("move_lines", ids=ended)
        return moved

    return database.in_transaction(work)


def _batches(ids: Sequence[int]) -> Iterator[list[int]]:
    ordered = sorted(set(ids))
    for start in range(0, len(ordered), AT_ONCE):
        yield ordered[start : start + AT_ONCE]
