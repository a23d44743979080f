"""A keeper's log lines: one JSON object each, on standard error. The launcher reads and renders them.

Facts only: ids, counts, seconds, names. Never a payload or a result; of an error no more than its mode lets be stored.
"""

import json
import os
import sys
from datetime import UTC, datetime
from typing import Any


class Journal:
    """Writes lines that carry the same identity each time. A line that cannot be written is dropped."""

    def __init__(self, **identity: Any) -> None:
        self._identity = identity

    def say(self, event: str, level: str = "info", **facts: Any) -> None:
        """One line about one event."""
        line = {"at": datetime.now(UTC).isoformat(), "level": level, "event": event, **self._identity, **facts}
        try:
            os.write(sys.stderr.fileno(), (json.dumps(line, default=str) + "\n").encode())
        except OSError:
            return
