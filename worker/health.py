"""Whether a mode can do its work here: its own function says so, where a worker begins and before it takes a task.

    python -P -m stoker.worker.health FUNCTION FOLDER TOLD

TOLD is a pipe for what is wrong, in the words of the function's error; nothing comes where nothing is.
"""

import os
import signal
import sys
from collections.abc import Mapping
from typing import Any, NoReturn

from stoker.worker.errors import kind_of, text_of
from stoker.worker.found import call, find
from stoker.worker.redact import stored

UNWELL = "health check failed"
SECONDS = 60.0
_WORDS_LIMIT = 2000


def main() -> None:
    """Ask, and say what is wrong."""
    name, folder, told = sys.argv[1:4]
    os.set_inheritable(int(told), False)
    if words := wrong(name, folder):
        os.write(int(told), words[:_WORDS_LIMIT].encode("utf-8", "replace"))


def unwell(hello: Mapping[str, Any], secrets: Mapping[str, str]) -> str | None:
    """What is wrong by the function that the mode names, as the mode lets it be stored; None: nothing is."""
    words = wrong(hello["health"], hello["folder"]) if hello.get("health") else None
    return None if words is None else as_stored(words, hello["errors"], secrets)


def as_stored(words: str, policy: str, secrets: Mapping[str, str]) -> str:
    """What is wrong, under the policy of the mode for errors."""
    return f"{UNWELL}: {stored(words, policy, None, secrets)}"


def wrong(name: str, folder: str) -> str | None:
    """What the function raised, or that it returned False, or took more than a minute; None: nothing is wrong."""
    before = signal.signal(signal.SIGALRM, _too_long)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        return f"{name} returned False" if call(find(name, folder)) is False else None
    except BaseException as error:  # noqa: BLE001 - whatever it raises means the same: this cannot work here
        return f"{kind_of(error)}: {text_of(error)}"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before or signal.SIG_DFL)


def _too_long(*_: object) -> NoReturn:
    raise TimeoutError(f"it took more than {SECONDS:g} s")


if __name__ == "__main__":
    main()
