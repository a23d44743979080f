"""Wait for a condition instead of sleeping."""

import time
from collections.abc import Callable


def wait_until(condition: Callable[[], object], timeout: float = 10.0, message: str = "condition not met") -> None:
    """Ask ``condition`` every 10 ms; AssertionError with ``message`` if it is not true within ``timeout`` s."""
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, f"{message} (waited {timeout:g} s)"
        time.sleep(0.01)
