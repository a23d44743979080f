"""What a handler is given.

def resize(task: Task[dict[str, str]]) -> dict[str, int]:
    image = open(task.payload["path"])
    ...
    return {"width": 640}
"""

from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    import uuid

Payload = TypeVar("Payload")


class Task(Generic[Payload]):
    """One task in one attempt. A handler returns a JSON value (or None), or raises to fail the attempt.

    Written out, and not frozen: what dataclasses import is a third of a runner's start, and making a frozen one takes
    longer than all else that a quick task costs there.
    """

    __slots__ = ("attempt", "id", "installation", "mode", "payload")

    def __init__(self, id: int, mode: str, payload: Payload, attempt: int, installation: str) -> None:  # noqa: A002
        self.id = id
        self.mode = mode
        self.payload = payload
        self.attempt = attempt
        self.installation = installation

    def __repr__(self) -> str:
        return f"Task(id={self.id}, mode={self.mode!r}, attempt={self.attempt})"

    @property
    def delivery_id(self) -> "uuid.UUID":
        """The same in every attempt of this task: hand it to the other side, so that it can drop a repetition."""
        return delivery_id_of(self.installation, self.id)


def delivery_id_of(installation: str, task: int) -> "uuid.UUID":
    """What names a task to other systems: of one installation, and the same for ever."""
    import uuid  # 5 ms, for who asks

    return uuid.uuid5(uuid.UUID(installation), f"task {task}")
