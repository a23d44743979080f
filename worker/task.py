"""What a handler is given.

def resize(task: Task[dict[str, str]]) -> dict[str, int]:
    image = open(task.payload["path"])
    ...
    return {"width": 640}
"""

from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    import uuid
    from collections.abc import Awaitable, Callable

    from stoker.worker.outcomes import Done, Fail, FollowUp, Hold, Outcome, Retry, Snooze

__all__ = ["Done", "Fail", "FollowUp", "Hold", "Outcome", "Retry", "Snooze", "Task", "delivery_id_of"]

ANSWER = "answer"
"""The step that holds what a person answered."""

Result = TypeVar("Result")
Payload = TypeVar("Payload")


class Task(Generic[Payload]):
    """One task in one attempt. A handler returns a JSON value (or None), or raises to fail the attempt.

    Written out, and not frozen: what dataclasses import is a third of a runner's start, and making a frozen one takes
    longer than all else that a quick task costs there.
    """

    __slots__ = ("attempt", "finished", "id", "installation", "mode", "number", "payload")

    runner: Any = None
    """The process it runs in; None where a handler is called by hand, as in its tests."""
    number: int
    finished: dict[str, Any]

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

    @property
    def cancelled(self) -> bool:
        """Whether somebody wants it called off: stop when you can, by returning or raising; it is not tried again."""
        return self.runner is not None and bool(self.runner.is_called_off(self))

    def step(self, name: str, work: "Callable[[], Result]") -> "Result":
        """What ``work()`` returns, a JSON value of at most 64 KiB; not called again once it has returned, in any attempt.

        The result is stored before this returns. Raises StepError when it cannot be.
        """
        from stoker.worker.steps import run  # for who has steps

        return run(self, name, work)

    async def step_async(self, name: str, work: "Callable[[], Awaitable[Result]]") -> "Result":
        """As ``step``, for a coroutine function; other tasks go on meanwhile."""
        from stoker.worker.steps import run_async

        return await run_async(self, name, work)

    @property
    def steps_done(self) -> tuple[str, ...]:
        """The names of the steps that are finished, in this attempt or an earlier one."""
        from stoker.worker.steps import finished

        return tuple(name for name in finished(self) if name != ANSWER)

    @property
    def answer(self) -> str | None:
        """What a person answered to its ``Hold(question)``; None while nobody has."""
        from stoker.worker.steps import finished

        found: str | None = finished(self).get(ANSWER)
        return found

    def progress(self, fraction: float, text: str = "") -> None:
        """Show how far it is, from 0 to 1, to whoever looks: the latest, about once a second. Never waits."""
        from stoker.worker.steps import tell

        tell(self, fraction, text)


def delivery_id_of(installation: str, task: int) -> "uuid.UUID":
    """What names a task to other systems: of one installation, and the same for ever."""
    import uuid  # 5 ms, for who asks

    return uuid.uuid5(uuid.UUID(installation), f"task {task}")


def __getattr__(name: str) -> Any:
    """The outcomes, which are imported for who uses them."""
    if name in __all__:
        from stoker.worker import outcomes

        return getattr(outcomes, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
