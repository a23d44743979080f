"""The sections of config.toml that belong to this room, and the list of all sections with the model of each."""

import re
from typing import Annotated, Literal

from pydantic_core import core_schema

from stoker.hygiene.settings import HygieneSettings
from stoker.orchestrator.notify_settings import DeliverySettings
from stoker.sql.section import Kind, Section, checked
from stoker.sql.settings import (
    Count,
    CountOrNone,
    DatabaseSettings,
    Duration,
    DurationOrNone,
    LastingDuration,
    LastingDurationOrNone,
    QueueSettings,
    Text,
    Texts,
)
from stoker.watchdog.settings import WatchdogSettings
from stoker.worker.settings import MODE_NAME, Handler, Program, Variables, WorkerSettings

_PORTS = 1 << 16
_POLICY = re.compile(r"latest|skip|all\(max=([1-9][0-9]{0,3})\)")


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


def _is_an_address(text: str) -> str:
    host, _, port = text.rpartition(":")
    if text and not (host and port.isascii() and port.isdigit() and int(port) < _PORTS):
        raise ValueError('expected "host:port", such as "127.0.0.1:8080", or nothing')
    return text


class RuntimeSettings(Section):
    """What ``stoker run`` does besides its loops; ``http``: where it answers probes, empty: nowhere."""

    http: Annotated[Text, checked(_is_an_address)] = ""


def _is_a_name(name: str) -> str:
    if not MODE_NAME.fullmatch(name):
        raise ValueError("use 1 to 63 characters of a-z 0-9 _ . - and begin with a letter")
    return name


def _is_a_cron(text: str) -> str:
    from stoker.sql.due import Cron

    if text:
        Cron.parse(text)
    return text


def _is_a_policy(text: str) -> str:
    if not _POLICY.fullmatch(text):
        raise ValueError('expected "latest", "skip" or for example "all(max=5)"')
    return text


class ScheduleSettings(Section):
    """When fires are due, and what becomes of a due time that was missed; its limits can only tighten [limits]."""

    name: Annotated[Text, checked(_is_a_name)] = ""
    cron: Annotated[Text, checked(_is_a_cron)] = ""
    every_seconds: LastingDurationOrNone = None
    timezone: Annotated[Text, checked(_is_a_zone)] = "UTC"
    grace_seconds: LastingDuration = 600.0
    finish_within_seconds: LastingDurationOrNone = None
    missed: Annotated[Text, checked(_is_a_policy)] = "latest"
    overlap: Literal["skip", "wait"] = "skip"
    lane: Annotated[Text, checked(_is_a_name)] = "main"
    modes: Texts = ()
    jitter_seconds: Duration = 0.0
    max_pool: CountOrNone = None
    task_cap: CountOrNone = None
    wall_clock_seconds: LastingDurationOrNone = None
    fire_deadline_seconds: LastingDurationOrNone = None

    def check(self) -> None:
        """It is due either by the calendar or by the clock."""
        if bool(self.cron) == (self.every_seconds is not None):
            found = "both" if self.cron else "neither"
            raise ValueError(f'needs exactly one of cron = "0 7 * * *" and every = "15m", has {found}')
        if self.every_seconds is not None and self.every_seconds != int(self.every_seconds):
            raise ValueError("every must be whole seconds")
        if self.finish_within_seconds is not None and self.finish_within_seconds <= self.grace_seconds:
            raise ValueError("finish_within must be longer than grace: a fire that comes in time could not end in time")

    @property
    def most_missed(self) -> int:
        """How many missed due times are made good."""
        found = _POLICY.fullmatch(self.missed)
        return int(found[1]) if found and found[1] else 1


class LoopSettings(Section):
    """What ``stoker run`` does again and again, in a process of its own; ``jitter`` is a share of the interval."""

    name: Annotated[Text, checked(_is_a_name)] = ""
    handler: Handler = ""
    command: Program = ()
    interval_seconds: LastingDuration = 60.0
    jitter: Annotated[float, Kind(core_schema.float_schema(strict=True, ge=0, le=1))] = 0.1
    tier: Literal["sidecar", "core"] = "sidecar"
    time_limit_seconds: LastingDuration = 300.0
    env: Variables = ()
    at_fire: bool = False

    def check(self) -> None:
        """A loop has one thing that it does."""
        if bool(self.handler) == bool(self.command):
            found = "both" if self.handler else "neither"
            one = 'handler = "package.module:function" and command = ["program", "argument"]'
            raise ValueError(f"needs exactly one of {one}, has {found}")


SECTIONS: dict[str, type[Section]] = {
    "database": DatabaseSettings,
    "limits": LimitSettings,
    "worker": WorkerSettings,
    "queue": QueueSettings,
    "hygiene": HygieneSettings,
    "plan": PlanSettings,
    "log": LogSettings,
    "code": CodeSettings,
    "watchdog": WatchdogSettings,
    "delivery": DeliverySettings,
    "runtime": RuntimeSettings,
}
