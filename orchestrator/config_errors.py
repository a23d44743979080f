"""What is wrong with a configuration, said so that it can be mended, without quoting what may be secret.

Names of keys are printed, values never; a value that passed every check (a duration, a number) may be.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stoker.sql.section import SectionError

FILE = ""
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_LONGEST_NAME = 80


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


def problems_of(error: SectionError, at: Sequence[str]) -> list[Problem]:
    """What is wrong in the section at path ``at``."""
    return [Problem(_path(at, where), wrong) for where, wrong in error.wrongs]


def _written(name: str) -> str:
    if _BARE.fullmatch(name):
        return name[:_LONGEST_NAME]
    return "..." if "://" in name else json.dumps(name[:_LONGEST_NAME])


def _path(at: Sequence[str], where: tuple[int | str, ...]) -> str:
    text = path_of(*at)
    for step in where:
        text += f"[{step}]" if isinstance(step, int) else f".{_written(step)}"
    return text
