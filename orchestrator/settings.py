"""The sections of config.toml that are the orchestrator's own: [limits], [plan], [log], [code]."""

from typing import Annotated, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import AfterValidator

from stoker.sql.settings import Duration, OptionalCount, OptionalDuration, PositiveDuration, Section, key


def _zone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError('not a time zone: write for example "UTC" or "Europe/Berlin"') from None
    return name


class LimitSettings(Section):
    """The interlocks. "none" switches one off; zero and less let nothing pass."""

    fires_per_day: OptionalCount = 6
    min_gap_seconds: Duration = key("min_gap", "0s")
    max_pool: int = 12
    task_cap: OptionalCount = 25
    wall_clock_seconds: OptionalDuration = key("wall_clock", "15m")
    fire_deadline_seconds: OptionalDuration = key("fire_deadline", "1h")
    timezone: Annotated[str, AfterValidator(_zone)] = "UTC"


class PlanSettings(Section):
    """How many workers a backlog deserves."""

    drain_target_seconds: PositiveDuration = key("drain_target", "1m")


class LogSettings(Section):
    """What is logged, and in which form."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["auto", "human", "json"] = "auto"


class CodeSettings(Section):
    """The version of the user's code, recorded on each fire; empty: the git commit beside config.toml."""

    version: str = ""
