"""What a section of config.toml is made of, and the sections that belong to this room: [database] and [queue].

In the file a duration or a size is text with its unit, and a key is bare: ``lease = "30s"``. In the program it is a
number, and the name carries the unit: ``lease_seconds = 30.0``. No message raised here quotes a value.
"""

import datetime
import re
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    PrivateAttr,
    field_validator,
)

from stoker.sql.units import format_duration, format_size, parse_duration, parse_size

NONE = "none"
_INTEGER_MAX = 2**31 - 1
_SERVER_SECONDS = (0.001, 24 * 86_400)
_SCHEMA_BYTES = 63
_POSTGRESQL = re.compile(r"postgres(?:ql)?://|\s*[a-z_]+\s*=")
_DRIVER_URL = re.compile(r"postgres(?:ql)?\+[^:]*://")
_KINDS: tuple[tuple[Any, str], ...] = (
    (bool, "true or false"),
    (int, "a whole number"),
    (float, "a number"),
    (str, "text"),
    (list | tuple, "a list"),
    (dict, "a table"),
    (datetime.date | datetime.time, "a date or time"),
)


def key_of(field: str) -> str:
    """The key in the file of an attribute whose name may end in its unit."""
    return field.removesuffix("_seconds").removesuffix("_bytes")


def kind_of(value: object) -> str:
    """What sort of value this is, in the words of the file; safe to print, whatever the value."""
    return next((kind for types, kind in _KINDS if isinstance(value, types)), "something else")


class Section(BaseModel):
    """One section: frozen, exact about types, without room for unknown keys, silent about its input."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        frozen=True,
        alias_generator=key_of,
        allow_inf_nan=False,
        hide_input_in_errors=True,
    )

    def as_written(self) -> dict[str, Any]:
        """Every key with its value in the notation of the file, secrets in clear."""
        return self.model_dump(mode="json", by_alias=True)


def _duration(value: object) -> float:
    if not isinstance(value, str):
        raise ValueError(f'expected a duration such as "15m", "1h30m" or "250ms", got {kind_of(value)}')
    return parse_duration(value)


def _size(value: object) -> int:
    if not isinstance(value, str):
        raise ValueError(f'expected a size such as "64KiB" or "1MiB", got {kind_of(value)}')
    return parse_size(value)


def _duration_or_none(value: object) -> float | None:
    return None if value == NONE else _duration(value)


def _count_or_none(value: object) -> int | None:
    if value == NONE:
        return None
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(f'expected a whole number or "none", got {kind_of(value)}')
    return _counted(value)


def _counted(value: int) -> int:
    if value > _INTEGER_MAX:
        raise ValueError(f"must be at most {_INTEGER_MAX}")
    return max(value, 0)


def _lasting(value: float | None) -> float | None:
    if value == 0:
        raise ValueError("must be longer than 0s")
    return value


def _server_time(value: float) -> float:
    shortest, longest = _SERVER_SECONDS
    if not shortest <= value <= longest:
        raise ValueError(f"must lie between {format_duration(shortest)} and {format_duration(longest)}")
    return value


def _filled(value: int) -> int:
    if value == 0:
        raise ValueError("must be larger than 0B")
    return value


def _texts(value: object) -> tuple[object, ...]:
    if not isinstance(value, list | tuple):
        raise ValueError(f"expected a list of texts, got {kind_of(value)}")
    return tuple(value)


def _write_duration(value: float | None) -> str:
    return NONE if value is None else format_duration(value)


def _write_count(value: int | None) -> int | str:
    return NONE if value is None else value


Duration = Annotated[float, BeforeValidator(_duration), PlainSerializer(_write_duration)]
LastingDuration = Annotated[Duration, AfterValidator(_lasting)]
ServerDuration = Annotated[Duration, AfterValidator(_server_time)]
DurationOrNone = Annotated[float | None, BeforeValidator(_duration_or_none), PlainSerializer(_write_duration)]
LastingDurationOrNone = Annotated[DurationOrNone, AfterValidator(_lasting)]
Count = Annotated[int, AfterValidator(_counted)]
CountOrNone = Annotated[int | None, BeforeValidator(_count_or_none), PlainSerializer(_write_count)]
Positive = Annotated[int, Field(ge=1, le=_INTEGER_MAX)]
Size = Annotated[int, BeforeValidator(_size), PlainSerializer(format_size)]
FilledSize = Annotated[Size, AfterValidator(_filled)]
Texts = Annotated[tuple[str, ...], BeforeValidator(_texts)]


class DatabaseSettings(Section):
    """Where the database is and how long its answers may take."""

    url: str = Field(default="", repr=False)
    url_file: str = Field(default="", repr=False)
    schema_name: str = Field(default="stoker", alias="schema")
    connect_timeout_seconds: LastingDuration = 5.0
    statement_timeout_seconds: ServerDuration = 30.0
    lock_timeout_seconds: ServerDuration = 5.0
    prepared_statements: bool = True
    session_options: bool = True
    _libpq: bool = PrivateAttr(default=False)

    def model_post_init(self, context: Any, /) -> None:
        """Note whether libpq's own variables (PGHOST and its like) say where the database is."""
        self._libpq = bool(isinstance(context, dict) and context.get("libpq"))

    @property
    def embedded(self) -> bool:
        """Nobody said where the database is: stoker's own server beside config.toml is used."""
        return not self.url and not self._libpq

    @field_validator("url")
    @classmethod
    def _is_postgresql(cls, url: str) -> str:
        if "\0" in url or "\n" in url:
            raise ValueError("must be one line without NUL")
        if _DRIVER_URL.match(url):
            raise ValueError('names a driver: begin with "postgresql://" alone')
        if url and not _POSTGRESQL.match(url):
            raise ValueError('expected for example "postgresql://user@host/database" or "host=... dbname=..."')
        return url

    @field_validator("url_file")
    @classmethod
    def _is_a_path(cls, path: str) -> str:
        if "\0" in path:
            raise ValueError("must hold no NUL")
        return path

    @field_validator("schema_name")
    @classmethod
    def _fits_an_identifier(cls, name: str) -> str:
        is_text = not any("\ud800" <= char <= "\udfff" for char in name)
        if not is_text or "\0" in name or not 1 <= len(name.encode()) <= _SCHEMA_BYTES:
            raise ValueError(f"must be 1 to {_SCHEMA_BYTES} bytes of UTF-8 without NUL")
        return name


class QueueSettings(Section):
    """What is let into the queue, and how it is kept."""

    payload_limit_bytes: FilledSize = 1 << 20
    span_length: Positive = 1000
