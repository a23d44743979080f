"""A handler whose task carries an instance of its mode's model in place of what JSON gave."""

import json
from collections.abc import Callable
from typing import Any

from stoker.sql.models import find_model, fit
from stoker.sql.payload import PayloadError
from stoker.worker.pieces import UnreadableError
from stoker.worker.redact import key_shown
from stoker.worker.task import Task


def fitted(
    handler: Callable[[Task[Any]], Any], model_name: str, folder: str, policy: str, *, is_async: bool
) -> Callable[[Task[Any]], Any]:
    """``handler``, given instances of the model; raises ModelError. A payload that does not fit raises UnreadableError."""
    model = find_model(model_name, folder)

    async def run_async(task: Task[Any]) -> Any:
        task.payload = _instance(model, task.payload, policy)
        return await handler(task)

    def run(task: Task[Any]) -> Any:
        task.payload = _instance(model, task.payload, policy)
        return handler(task)

    return run_async if is_async else run


def _instance(model: Any, payload: Any, policy: str) -> Any:
    """As the door asks it: of JSON, where a model may be laxer than of Python's values."""
    try:
        return fit(model, json.dumps(payload), lambda key: key_shown(key, policy))
    except PayloadError as error:
        raise UnreadableError(str(error)) from None
