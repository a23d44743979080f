"""The process that runs a loop's handler once, and nothing of stoker's beside it.

    python -P -m stoker.worker.loop_runner HANDLER FOLDER TOLD

TOLD is a pipe for one line of JSON: {"count": 3}, {"count": null} or {"error": "ValueError: no"}.
"""

import json
import os
import sys
from typing import Any

from stoker.worker.errors import kind_of, text_of
from stoker.worker.found import call, find

_ERROR_LIMIT = 4000


def main() -> None:
    """Import it, call it, say what it returned; its traceback goes to standard error."""
    name, folder, told = sys.argv[1:4]
    os.set_inheritable(int(told), False)
    try:
        _tell(told, {"count": _count(name, call(find(name, folder)))})
    except BaseException as error:
        _tell(told, {"error": f"{kind_of(error)}: {text_of(error)}"[:_ERROR_LIMIT]})
        raise


def _count(name: str, result: Any) -> int | None:
    if result is not None and (isinstance(result, bool) or not isinstance(result, int)):
        raise TypeError(f"{name} must return how much it did, or None, not {type(result).__name__}")
    return result


def _tell(told: str, facts: dict[str, Any]) -> None:
    os.write(int(told), (json.dumps(facts) + "\n").encode())


if __name__ == "__main__":
    main()
