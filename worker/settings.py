"""The sections [worker] and [modes.*] of config.toml. Keepers never import this: they get their orders as JSON."""

import re
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from stoker.sql.settings import Duration, OptionalCount, OptionalDuration, PositiveDuration, Section, Size, key

MODE_NAME = re.compile(r"[a-z][a-z0-9_.-]{0,62}")
_HANDLER = r"^[A-Za-z_][\w.]*:[A-Za-z_][\w.]*$"
_MIN_RENEWALS = 3
Count = Annotated[int, Field(ge=0)]
Positive = Annotated[int, Field(gt=0)]


class WorkerSettings(Section):
    """How every worker lives."""

    lease_seconds: PositiveDuration = key("lease", "30s")
    renew_every_seconds: PositiveDuration = key("renew_every", "10s")
    grace_seconds: Duration = key("grace", "10s")
    batch_time_seconds: PositiveDuration = key("batch_time", "200ms")
    batch_limit: Positive = 1000
    max_respawns: Count = 5
    linger_seconds: Duration = key("linger", "5s")
    output_limit_bytes: Size = key("output_limit", "64KiB")
    result_limit_bytes: Size = key("result_limit", "1MiB")

    @model_validator(mode="after")
    def _lease_lasts_three_renewals(self) -> Self:
        if self.lease_seconds < _MIN_RENEWALS * self.renew_every_seconds:
            raise ValueError("lease must be at least three times renew_every, or living workers would count as lost")
        return self


class ModeSettings(Section):
    """One kind of work: its handler, its limits, its retry policy."""

    handler: Annotated[str, Field(pattern=_HANDLER)] | Literal[""] = ""
    command: list[Annotated[str, Field(min_length=1, pattern=r"^[^\x00]*$")]] = []
    version: Positive = 1
    max_attempts: Positive = 5
    max_workers: OptionalCount = key(None, "none")
    weight: Annotated[float, Field(gt=0, strict=False)] = 1.0
    timeout_seconds: OptionalDuration = key("timeout", "10m")
    side_effect: bool = False
    errors: Literal["full", "redacted", "withheld"] = "redacted"
    env: list[Annotated[str, Field(pattern=r"^[A-Za-z_]\w*$")]] = []
    backoff_base_seconds: Duration = key("backoff_base", "2s")
    backoff_factor: Annotated[float, Field(ge=1, strict=False)] = 2.0
    backoff_cap_seconds: Duration = key("backoff_cap", "5m")
    task_cap: OptionalCount = key(None, "none")
    wall_clock_seconds: OptionalDuration = key("wall_clock", "none")
    label: str = ""

    @model_validator(mode="after")
    def _has_one_runner(self) -> Self:
        if bool(self.handler) == bool(self.command):
            raise ValueError('needs exactly one of handler = "package.module:function" and command = ["program"]')
        return self
