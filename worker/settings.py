"""The sections of config.toml that belong to this room: [worker], and one [modes.<name>] for each kind of work."""

import re
from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from stoker.sql.settings import (
    Count,
    CountOrNone,
    Duration,
    FilledSize,
    LastingDuration,
    LastingDurationOrNone,
    Positive,
    Section,
    Texts,
)
from stoker.sql.units import format_duration
from stoker.worker.slate import MOST_AT_A_TIME

MODE_NAME = re.compile(r"[a-z][a-z0-9_.-]{0,62}")
_HANDLER = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*:[^\W\d]\w*(?:\.[^\W\d]\w*)*")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_RENEWALS_PER_LEASE = 3
_ROUNDING = 1 - 1e-9


class WorkerSettings(Section):
    """How a worker holds what it claimed, and what it may leave behind."""

    lease_seconds: LastingDuration = 30.0
    renew_every_seconds: LastingDuration = 10.0
    grace_seconds: Duration = 10.0
    batch_time_seconds: LastingDuration = 0.2
    batch_limit: Positive = 1000
    max_respawns: Count = 5
    linger_seconds: Duration = 5.0
    output_limit_bytes: FilledSize = 64 << 10
    result_limit_bytes: FilledSize = 1 << 20

    @model_validator(mode="after")
    def _lease_outlives_lost_renewals(self) -> Self:
        if self.lease_seconds < _RENEWALS_PER_LEASE * self.renew_every_seconds * _ROUNDING:
            lease, renewal = format_duration(self.lease_seconds), format_duration(self.renew_every_seconds)
            raise ValueError(f'lease = "{lease}" must be at least three times renew_every = "{renewal}"')
        return self


class ModeSettings(Section):
    """One kind of work: what runs it, how often it is tried, and limits of its own, which can only tighten [limits]."""

    handler: str = ""
    command: Texts = ()
    version: Positive = 1
    max_attempts: Positive = 5
    max_workers: CountOrNone = None
    weight: Annotated[float, Field(gt=0)] = 1.0
    timeout_seconds: LastingDurationOrNone = 600.0
    concurrency: Annotated[int, Field(ge=1, le=MOST_AT_A_TIME)] = 1
    side_effect: bool = False
    errors: Literal["full", "redacted", "withheld"] = "redacted"
    env: Texts = ()
    backoff_base_seconds: Duration = 2.0
    backoff_factor: Annotated[float, Field(ge=1)] = 2.0
    backoff_cap_seconds: Duration = 300.0
    task_cap: CountOrNone = None
    wall_clock_seconds: LastingDurationOrNone = None
    label: str = ""

    @field_validator("handler")
    @classmethod
    def _names_a_function(cls, handler: str) -> str:
        if handler and not _HANDLER.fullmatch(handler):
            raise ValueError('must be written "package.module:function"')
        return handler

    @field_validator("command")
    @classmethod
    def _names_a_program(cls, command: tuple[str, ...]) -> tuple[str, ...]:
        if command and not command[0]:
            raise ValueError('must begin with a program: ["program", "argument"]')
        if any("\0" in word for word in command):
            raise ValueError("must hold no NUL")
        return command

    @field_validator("env")
    @classmethod
    def _names_variables(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        if not all(_VARIABLE.fullmatch(name) for name in names):
            raise ValueError('must list names of environment variables, without values: ["API_TOKEN"]')
        return names

    @model_validator(mode="after")
    def _has_one_runner(self) -> Self:
        if bool(self.handler) == bool(self.command):
            found = "both" if self.handler else "neither"
            one = 'handler = "package.module:function" and command = ["program", "argument"]'
            raise ValueError(f"needs exactly one of {one}, has {found}")
        return self

    @model_validator(mode="after")
    def _overlaps_where_it_can(self) -> Self:
        if self.concurrency > 1 and (self.command or self.side_effect):
            what = "a side effect is done one at a time" if self.side_effect else "a program is run one at a time a worker"
            raise ValueError(f"concurrency = {self.concurrency} needs an async handler: {what}")
        return self
