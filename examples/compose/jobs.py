"""A handler to begin with."""

from stoker.worker.task import Task


def hello(task: Task[dict[str, str]]) -> dict[str, str]:
    """A JSON value is the task's result."""
    return {"greeting": f"Hello, {task.payload['name']}!"}
