"""The sections of config.toml that belong to this room, and the list of all sections with the model of each."""

import zoneinfo
from difflib import get_close_matches
from typing import Annotated, Literal

from pydantic import Field, field_validator
from pydantic.fields import FieldInfo

from stoker.hygiene.settings import HygieneSettings
from stoker.sql.settings import (
    Count,
    CountOrNone,
    DatabaseSettings,
    DurationOrNone,
    LastingDuration,
    LastingDurationOrNone,
    QueueSettings,
    Section,
)
from stoker.worker.settings import WorkerSettings


class LimitSettings(Section):
    """The interlocks. None: switched off by "none"; negative numbers are read as zero."""

    fires_per_day: CountOrNone = 6
    min_gap_seconds: DurationOrNone = 0.0
    max_pool: Count = 12
    task_cap: CountOrNone = 25
    wall_clock_seconds: LastingDurationOrNone = 900.0
    fire_deadline_seconds: LastingDurationOrNone = 3600.0
    timezone: str = "UTC"

    @field_validator("timezone")
    @classmethod
    def _is_a_zone(cls, name: str) -> str:
        if _zone_exists(name):
            return name
        near = get_close_matches(name, zoneinfo.available_timezones(), 1)
        remedy = f"did you mean {near[0]!r}?" if near else 'write for example "Europe/Berlin" or "UTC"'
        raise ValueError(f"is no time zone of this machine; {remedy}")


class PlanSettings(Section):
    """What the default decider aims at."""

    drain_target_seconds: LastingDuration = 60.0


class LogSettings(Section):
    """What is said on standard error, and how."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["auto", "human", "json"] = "auto"


class CodeSettings(Section):
    """Which version of the user's code a fire ran; empty: the git commit beside config.toml."""

    version: Annotated[str, Field(max_length=200)] = ""


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


def keys_of(section: type[Section]) -> dict[str, FieldInfo]:
    """The keys a section has in the file."""
    return {str(field.alias): field for field in section.model_fields.values()}


def _zone_exists(name: str) -> bool:
    try:
        return bool(name) and zoneinfo.ZoneInfo(name).key == name
    except (ValueError, OSError, zoneinfo.ZoneInfoNotFoundError):
        return False
