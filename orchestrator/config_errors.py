"""What is wrong with a configuration, said so that it can be mended, and without any value from it."""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel

_EXPECTED = {
    "string_type": "must be text in quotes",
    "int_type": "must be a whole number",
    "bool_type": "must be true or false",
    "float_type": "must be a number",
    "list_type": "must be a list",
    "missing": "is missing",
}


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong: where (a key's path), what, and what to do."""

    key: str
    what: str
    fix: str = ""
    place: str = ""

    def __str__(self) -> str:
        where = self.place or self.key
        return f"{where + ': ' if where else ''}{self.what}" + (f"; {self.fix}" if self.fix else "")


class ConfigError(Exception):
    """A configuration that cannot be used."""

    def __init__(self, path: Path, problems: list[Problem]) -> None:
        self.path = path
        self.problems = tuple(problems)
        lines = "".join(f"\n  {problem}" for problem in problems)
        super().__init__(f"{path}:{lines}")


def explain(
    errors: list[Any], section: str, sections: Mapping[str, type[BaseModel]], mode: type[BaseModel]
) -> list[Problem]:
    """pydantic's errors, without inputs, as problems of one section."""
    found: list[Problem] = []
    for error in errors:
        key = str(error["loc"][0]) if error["loc"] else ""
        if error["type"] == "extra_forbidden":
            found.append(unknown_key(key, section, sections, mode))
            continue
        path = f"{section}.{key}" if key else section
        problem = Problem(path, _what(error))
        if problem not in found and not any(
            one.key == path and one.key.count(".") > section.count(".") for one in found
        ):
            found.append(problem)
    return found


def unknown_key(
    key: str, section: str, sections: Mapping[str, type[BaseModel]], mode: type[BaseModel], place: str = ""
) -> Problem:
    """A key that is not known there: where it belongs, or which was meant."""
    if not section:
        near = difflib.get_close_matches(key, [*sections, "modes"], 1)
        homes = [f"[{name}]" for name, model in sections.items() if key in _aliases(model)]
        fix = f"it belongs in {' or '.join(homes)}" if homes else f"did you mean [{near[0]}]?" if near else ""
        return Problem(key[:80], "is not a section", fix or f"sections: {', '.join([*sections, 'modes.NAME'])}", place)
    own = _aliases(mode if section.startswith("modes.") else sections[section])
    homes = [f"[{name}]" for name, model in sections.items() if key in _aliases(model) and name != section]
    if key in _aliases(mode) and not section.startswith("modes."):
        homes.append("[modes.NAME]")
    near = difflib.get_close_matches(key, own, 1)
    if near:
        fix = f"did you mean {near[0]}?"
    elif homes:
        fix = f"it belongs in {' or '.join(homes)}"
    else:
        fix = f"keys here: {', '.join(own)}"
    return Problem(f"{section}.{key[:80]}", "is not a key", fix, place)


def _aliases(model: type[BaseModel]) -> list[str]:
    return [info.alias or name for name, info in model.model_fields.items()]


def _what(error: Any) -> str:
    kind = str(error["type"])
    if kind == "value_error":
        return str(error["msg"]).removeprefix("Value error, ")
    if kind in _EXPECTED:
        return _EXPECTED[kind]
    if kind == "literal_error":
        return f"must be one of {error['ctx']['expected']}"
    if kind == "string_pattern_mismatch":
        return "has not the right form"
    return str(error["msg"])[:1].lower() + str(error["msg"])[1:]
