"""The sections [database] and [queue] of config.toml, and the types that every section uses.

In the file a key is called by its alias; in code its name carries the unit. A default is written as in the file.
"""

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from stoker.sql.units import parse_duration, parse_size


def _positive_duration(value: object) -> float:
    seconds = parse_duration(value)
    if seconds <= 0:
        raise ValueError('must be longer than nothing: write for example "15m"')
    return seconds


def _or_none(value: Any) -> Any:
    return None if value == "none" else value


Duration = Annotated[float, BeforeValidator(parse_duration)]
PositiveDuration = Annotated[float, BeforeValidator(_positive_duration)]
Size = Annotated[int, BeforeValidator(parse_size), Field(gt=0)]
OptionalDuration = Annotated[PositiveDuration | None, BeforeValidator(_or_none)]
OptionalCount = Annotated[int | None, BeforeValidator(_or_none)]


def key(alias: str | None, default: Any, **bounds: Any) -> Any:
    """A key of the file with its default as the file would say it; checked like any other value."""
    return Field(default, alias=alias, validate_default=True, **bounds)


class Section(BaseModel):
    """A section of config.toml: strict, frozen, without unknown keys, and silent about what it was given."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, hide_input_in_errors=True)


class DatabaseSettings(Section):
    """Where the database is. Without a url, and without PG* variables, an embedded server is used."""

    url: str = ""
    url_file: str = ""
    schema_name: str = key("schema", "stoker", min_length=1, max_length=63, pattern=r"^[^\x00]+$")
    connect_timeout_seconds: PositiveDuration = key("connect_timeout", "5s")
    statement_timeout_seconds: PositiveDuration = key("statement_timeout", "30s")
    lock_timeout_seconds: PositiveDuration = key("lock_timeout", "5s")
    prepared_statements: bool = True
    session_options: bool = True


class QueueSettings(Section):
    """What is let into the queue, and how it is laid out."""

    payload_limit_bytes: Size = key("payload_limit", "1MiB")
    span_length: int = Field(1000, gt=0)
