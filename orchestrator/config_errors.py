"""What is wrong with a configuration, said so that it can be mended, without quoting what may be secret.

Names of keys are printed, values never; a value that passed every check (a duration, a number) may be.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from stoker.sql.settings import kind_of

FILE = ""
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_LONGEST_NAME = 80
_EXPECTED = {
    "int_type": "a whole number",
    "bool_type": "true or false",
    "string_type": "text",
    "float_type": "a number",
}


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong: the key's path, what is wrong, what to do, and where it was given."""

    key: str
    wrong: str
    remedy: str = ""
    place: str = FILE

    def __str__(self) -> str:
        text = f"{self.key}: {self.wrong}" if self.key else self.wrong
        text += f"; {self.remedy}" if self.remedy else ""
        return f"{text} (from {self.place})" if self.place else text


class ConfigError(Exception):
    """The configuration cannot be used. ``file`` is where it was read, ``problems`` is all that is wrong with it."""

    def __init__(self, file: Path | None, problems: Sequence[Problem]) -> None:
        self.file = file
        self.problems = list(problems)
        head = f"{file} cannot be used:" if file else "there is no configuration:"
        super().__init__("\n".join([head, *(f"  {problem}" for problem in self.problems)]))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.file, self.problems)


def path_of(*names: str) -> str:
    """A key's path as it is written in TOML; what looks like a URL is no name, and is left out."""
    return ".".join(_written(name) for name in names)


def problems_of(error: ValidationError, at: Sequence[str], given: Mapping[str, Any]) -> list[Problem]:
    """What pydantic found in the section at path ``at``; ``given`` is looked at for the kinds of its values only."""
    return [
        Problem(_path(at, found["loc"]), _wrong(found, _value(given, found["loc"])))
        for found in error.errors(include_input=False, include_url=False)
    ]


def _written(name: str) -> str:
    if _BARE.fullmatch(name):
        return name[:_LONGEST_NAME]
    return "..." if "://" in name else json.dumps(name[:_LONGEST_NAME])


def _path(at: Sequence[str], loc: tuple[int | str, ...]) -> str:
    text = path_of(*at)
    for step in loc:
        text += f"[{step}]" if isinstance(step, int) else f".{_written(step)}"
    return text


def _value(given: Any, loc: tuple[int | str, ...]) -> Any:
    for step in loc:
        given = given[step]
    return given


def _wrong(found: ErrorDetails, value: object) -> str:
    kind, facts = found["type"], found.get("ctx", {})
    if kind in _EXPECTED:
        return f"expected {_EXPECTED[kind]}, got {kind_of(value)}"
    match kind:
        case "value_error":
            return str(facts["error"])
        case "literal_error":
            got = "another text" if isinstance(value, str) else kind_of(value)
            return f"expected {facts['expected']}, got {got}"
        case "greater_than_equal":
            return f"must be at least {facts['ge']}"
        case "greater_than":
            return f"must be more than {facts['gt']}"
        case "less_than_equal":
            return f"must be at most {facts['le']}"
        case "string_too_long":
            return f"must be at most {facts['max_length']} characters"
        case "finite_number":
            return "must be a finite number"
        case _:
            return f"is not acceptable ({kind})"
