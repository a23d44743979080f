"""Log lines on standard error: for people on a terminal, JSON elsewhere. Facts only, never a payload.

structlog is imported at the first line, so that what says nothing starts faster.
"""

import contextlib
import sys
from functools import cache
from typing import Any

_LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40}
_settings = {"level": "info", "format": "auto"}


def configure(level: str, form: str) -> None:
    """Set the lowest level that is shown, and the form: auto, human or json."""
    _settings.update(level=level, format=form)
    _logger.cache_clear()


def log(event: str, level: str = "info", /, **facts: Any) -> None:
    """One line about one event. That nobody reads it any more costs nothing but the line."""
    if _LEVELS.get(level, 20) >= _LEVELS[_settings["level"]]:
        with contextlib.suppress(OSError):
            getattr(_logger(), level if level in _LEVELS else "info")(event, **facts)


@cache
def _logger() -> Any:
    import structlog

    human = _settings["format"] == "human" or (_settings["format"] == "auto" and sys.stderr.isatty())
    renderer: Any = structlog.dev.ConsoleRenderer() if human else structlog.processors.JSONRenderer(default=str)
    return structlog.wrap_logger(
        structlog.PrintLogger(sys.stderr),
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True, key="at"),
            renderer,
        ],
    )
