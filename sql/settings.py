"""The kinds of values in config.toml, and the sections that belong to this room: [database] and [queue].

In the file a duration or a size is text with its unit, and a key is bare: ``lease = "30s"``. In the program it is a
number, and the name carries the unit: ``lease_seconds = 30.0``. No message raised here quotes a value.
"""

import re
from typing import Annotated

from pydantic_core import core_schema

from stoker.sql.section import TEXT, Kind, Section, checked, kind_of
from stoker.sql.units import format_duration, format_size, parse_duration, parse_size

NONE = "none"
_INTEGER_MAX = 2**31 - 1
_SERVER_SECONDS = (0.001, 24 * 86_400)
_SCHEMA_BYTES = 63
ENVIRONMENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")
_POSTGRESQL = re.compile(r"postgres(?:ql)?://|\s*[a-z_]+\s*=")
_DRIVER_URL = re.compile(r"postgres(?:ql)?\+[^:]*://")


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
    if value > _INTEGER_MAX:
        raise ValueError(f"must be at most {_INTEGER_MAX}")
    return max(value, 0)


def _not_negative(value: int) -> int:
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


def _write_duration(value: float | None) -> str:
    return NONE if value is None else format_duration(value)


def _write_count(value: int | None) -> int | str:
    return NONE if value is None else value


def _is_postgresql(url: str) -> str:
    if "\0" in url or "\n" in url:
        raise ValueError("must be one line without NUL")
    if _DRIVER_URL.match(url):
        raise ValueError('names a driver: begin with "postgresql://" alone')
    if url and not _POSTGRESQL.match(url):
        raise ValueError('expected for example "postgresql://user@host/database" or "host=... dbname=..."')
    return url


def _is_a_path(path: str) -> str:
    if "\0" in path:
        raise ValueError("must hold no NUL")
    return path


def _fits_an_identifier(name: str) -> str:
    is_text = not any("\ud800" <= char <= "\udfff" for char in name)
    if not is_text or "\0" in name or not 1 <= len(name.encode()) <= _SCHEMA_BYTES:
        raise ValueError(f"must be 1 to {_SCHEMA_BYTES} bytes of UTF-8 without NUL")
    return name


_WHOLE = core_schema.int_schema(strict=True, le=_INTEGER_MAX)

Text = Annotated[str, TEXT]
Duration = Annotated[float, checked(_duration, _write_duration)]
LastingDuration = Annotated[Duration, checked(_lasting)]
ServerDuration = Annotated[Duration, checked(_server_time)]
DurationOrNone = Annotated[float | None, checked(_duration_or_none, _write_duration)]
LastingDurationOrNone = Annotated[DurationOrNone, checked(_lasting)]
Count = Annotated[int, Kind(_WHOLE), checked(_not_negative)]
CountOrNone = Annotated[int | None, checked(_count_or_none, _write_count)]
Positive = Annotated[int, Kind(core_schema.int_schema(strict=True, ge=1, le=_INTEGER_MAX))]
AboveZero = Annotated[float, Kind(core_schema.float_schema(strict=True, gt=0, allow_inf_nan=False))]
AtLeastOne = Annotated[float, Kind(core_schema.float_schema(strict=True, ge=1, allow_inf_nan=False))]
Size = Annotated[int, checked(_size, format_size)]
FilledSize = Annotated[Size, checked(_filled)]
Texts = Annotated[tuple[str, ...], Kind(core_schema.list_schema(TEXT.schema, strict=True)), checked(tuple, list)]


def _names_an_environment(name: str) -> str:
    if name and not ENVIRONMENT.fullmatch(name):
        raise ValueError("use 1 to 63 characters of a-z A-Z 0-9 _ . -")
    return name


class DatabaseSettings(Section):
    """Where the database is and how long its answers may take."""

    url: Annotated[Text, checked(_is_postgresql)] = ""
    url_file: Annotated[Text, checked(_is_a_path)] = ""
    schema_name: Annotated[Text, checked(_fits_an_identifier)] = "stoker"
    environment: Annotated[Text, checked(_names_an_environment)] = ""
    connect_timeout_seconds: LastingDuration = 5.0
    statement_timeout_seconds: ServerDuration = 30.0
    lock_timeout_seconds: ServerDuration = 5.0
    prepared_statements: bool = True
    pipeline: bool = True
    session_options: bool = True
    _libpq: bool = False

    @property
    def embedded(self) -> bool:
        """Nobody said where the database is, nor do PGHOST and its like: stoker's own server beside config.toml is used."""
        return not self.url and not self._libpq


class QueueSettings(Section):
    """What is let into the queue, and how it is kept."""

    payload_limit_bytes: FilledSize = 1 << 20
    span_length: Positive = 1000
