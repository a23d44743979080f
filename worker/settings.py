"""The sections of config.toml that belong to this room: [worker], and one [modes.<name>] for each kind of work."""

import re
from typing import Annotated, Literal

from pydantic_core import core_schema

from stoker.sql.section import Kind, Section, checked
from stoker.sql.settings import (
    AboveZero,
    AtLeastOne,
    Count,
    CountOrNone,
    Duration,
    FilledSize,
    LastingDuration,
    LastingDurationOrNone,
    Positive,
    Text,
    Texts,
)
from stoker.sql.units import format_duration
from stoker.worker.slate import MOST_AT_A_TIME
from stoker.worker.task import ANSWER

MODE_NAME = re.compile(r"[a-z][a-z0-9_.-]{0,62}")
_HANDLER = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*:[^\W\d]\w*(?:\.[^\W\d]\w*)*")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_CLASS = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*")
LONGEST_STEP = 200
_RENEWALS_PER_LEASE = 3
_ROUNDING = 1 - 1e-9


def _names_a_function(handler: str) -> str:
    if handler and not _HANDLER.fullmatch(handler):
        raise ValueError('must be written "package.module:function"')
    return handler


def _names_a_model(model: str) -> str:
    if model and not _HANDLER.fullmatch(model):
        raise ValueError('must be written "package.module:Model"')
    return model


def _names_a_program(command: tuple[str, ...]) -> tuple[str, ...]:
    if command and not command[0]:
        raise ValueError('must begin with a program: ["program", "argument"]')
    if any("\0" in word for word in command):
        raise ValueError("must hold no NUL")
    return command


def _names_variables(names: tuple[str, ...]) -> tuple[str, ...]:
    if not all(_VARIABLE.fullmatch(name) for name in names):
        raise ValueError('must list names of environment variables, without values: ["API_TOKEN"]')
    return names


def _names_classes(names: tuple[str, ...]) -> tuple[str, ...]:
    if not all(_CLASS.fullmatch(name) for name in names):
        raise ValueError('must list classes of exceptions, bare or dotted: ["TimeoutError", "jobs.BusyError"]')
    return names


def _names_steps(names: tuple[str, ...]) -> tuple[str, ...]:
    if not all(0 < len(name) <= LONGEST_STEP and "\0" not in name for name in names) or len(set(names)) < len(names):
        raise ValueError(f"must list different names of 1 to {LONGEST_STEP} characters, in the order they are done")
    if ANSWER in names:
        raise ValueError(f"must not list {ANSWER!r}: that is what a person answers (task.answer)")
    return names


Handler = Annotated[Text, checked(_names_a_function)]
Program = Annotated[Texts, checked(_names_a_program)]
Variables = Annotated[Texts, checked(_names_variables)]


class WorkerSettings(Section):
    """How a worker holds what it claimed, and what it may leave behind."""

    lease_seconds: LastingDuration = 30.0
    renew_every_seconds: LastingDuration = 10.0
    grace_seconds: Duration = 10.0
    batch_time_seconds: LastingDuration = 0.2
    batch_limit: Positive = 1000
    max_respawns: Count = 5
    linger_seconds: Duration = 5.0
    modes: Texts = ()
    output_limit_bytes: FilledSize = 64 << 10
    result_limit_bytes: FilledSize = 1 << 20

    def check(self) -> None:
        """A lease outlives lost renewals."""
        if self.lease_seconds < _RENEWALS_PER_LEASE * self.renew_every_seconds * _ROUNDING:
            lease, renewal = format_duration(self.lease_seconds), format_duration(self.renew_every_seconds)
            raise ValueError(f'lease = "{lease}" must be at least three times renew_every = "{renewal}"')


class ModeSettings(Section):
    """One kind of work: what runs it, how often it is tried, and limits of its own, which can only tighten [limits]."""

    handler: Handler = ""
    command: Program = ()
    health: Handler = ""
    model: Annotated[Text, checked(_names_a_model)] = ""
    version: Positive = 1
    max_attempts: Positive = 5
    max_workers: CountOrNone = None
    weight: AboveZero = 1.0
    timeout_seconds: LastingDurationOrNone = 600.0
    concurrency: Annotated[int, Kind(core_schema.int_schema(strict=True, ge=1, le=MOST_AT_A_TIME))] = 1
    side_effect: bool = False
    errors: Literal["full", "redacted", "withheld"] = "redacted"
    env: Variables = ()
    backoff_base_seconds: Duration = 2.0
    backoff_factor: AtLeastOne = 2.0
    backoff_cap_seconds: Duration = 300.0
    retry_on: Annotated[Texts, checked(_names_classes)] = ()
    fail_on: Annotated[Texts, checked(_names_classes)] = ()
    steps: Annotated[Texts, checked(_names_steps)] = ()
    task_cap: CountOrNone = None
    wall_clock_seconds: LastingDurationOrNone = None
    label: str = ""

    def check(self) -> None:
        """A mode has one runner, which runs several tasks at a time only where it can."""
        if bool(self.handler) == bool(self.command):
            found = "both" if self.handler else "neither"
            one = 'handler = "package.module:function" and command = ["program", "argument"]'
            raise ValueError(f"needs exactly one of {one}, has {found}")
        if self.concurrency > 1 and (self.command or self.side_effect):
            what = "a side effect is done one at a time" if self.side_effect else "a program is run one at a time a worker"
            raise ValueError(f"concurrency = {self.concurrency} needs an async handler: {what}")
        if self.command and (given := next((n for n in ("retry_on", "fail_on", "steps") if getattr(self, n)), "")):
            raise ValueError(f"{given} is for a handler; a program says what happened by its exit status")
