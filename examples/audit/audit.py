"""The handlers of the two modes."""

import hashlib
import warnings
from pathlib import Path
from typing import Any

from stoker.worker.task import Task


def fixity(task: Task[dict[str, Any]]) -> dict[str, Any]:
    """SHA-256 and size of a file, and whether it is what an earlier fire recorded: new, same, changed, gone."""
    path, was = Path(task.payload["path"]), task.payload["was"]
    try:
        with path.open("rb") as file:
            found = {"sha256": hashlib.file_digest(file, "sha256").hexdigest(), "size": file.tell()}
    except FileNotFoundError:
        return {"status": "gone"}
    if was is None:
        return {"status": "new", **found}
    return {"status": "same" if was == found else "changed", **found}


def syntax(task: Task[dict[str, str]]) -> None:
    """Raises SyntaxError, or what else the compiler raises, when a Python file does not compile."""
    path = Path(task.payload["path"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compile(path.read_bytes(), path.name, "exec", dont_inherit=True)
