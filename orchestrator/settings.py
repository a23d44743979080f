"""The sections of config.toml that belong to this room, and the list of all sections with the model of each."""

from typing import Annotated, Literal

from pydantic_core import core_schema

from stoker.hygiene.settings import HygieneSettings
from stoker.sql.section import Kind, Section, checked
from stoker.sql.settings import (
    Count,
    CountOrNone,
    DatabaseSettings,
    DurationOrNone,
    LastingDuration,
    LastingDurationOrNone,
    QueueSettings,
    Text,
)
from stoker.worker.settings import WorkerSettings


def _is_a_zone(name: str) -> str:
    import zoneinfo

    if name == "UTC":
        return name
    try:
        if name and zoneinfo.ZoneInfo(name).key == name:
            return name
    except (ValueError, OSError, zoneinfo.ZoneInfoNotFoundError):
        pass
    from difflib import get_close_matches

    near = get_close_matches(name, zoneinfo.available_timezones(), 1)
    remedy = f"did you mean {near[0]!r}?" if near else 'write for example "Europe/Berlin" or "UTC"'
    raise ValueError(f"is no time zone of this machine; {remedy}")


class LimitSettings(Section):
    """The interlocks. None: switched off by "none"; negative numbers are read as zero."""

    fires_per_day: CountOrNone = 6
    min_gap_seconds: DurationOrNone = 0.0
    max_pool: Count = 12
    task_cap: CountOrNone = 25
    wall_clock_seconds: LastingDurationOrNone = 900.0
    fire_deadline_seconds: LastingDurationOrNone = 3600.0
    timezone: Annotated[Text, checked(_is_a_zone)] = "UTC"


class PlanSettings(Section):
    """What the default decider aims at."""

    drain_target_seconds: LastingDuration = 60.0


class LogSettings(Section):
    """What is said on standard error, and how."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["auto", "human", "json"] = "auto"


class CodeSettings(Section):
    """Which version of the user's code a fire ran; empty: the git commit beside config.toml."""

    version: Annotated[str, Kind(core_schema.str_schema(strict=True, max_length=200))] = ""


SECTIONS: dict[str, type[Section]] = {
    "database": DatabaseSettings,
    "limits": LimitSettings,
    "worker": WorkerSettings,
    "queue": QueueSettings,
    "hygiene": HygieneSettings,
    "plan": PlanSettings,
    "log": LogSettings,
    "code": CodeSettings,
}
