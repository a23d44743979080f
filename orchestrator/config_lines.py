"""Where in config.toml something stands, for those who are to change it."""

import tomllib
from pathlib import Path
from typing import Any


def place_of(path: Path, *names: str | int) -> str:
    """``config.toml, line 12 (loops[0].handler)`` of a key, or without the line where it cannot be told.

    ``names`` lead to it: "loops", 0, "handler", or "modes", "resize", "model".
    """
    *table, key = names
    written = "".join(f"[{name}]" if isinstance(name, int) else f".{name}" for name in names).lstrip(".")
    line = _line_of(path, table, str(key))
    return f"{path.name}, line {line} ({written})" if line else f"{path.name} ({written})"


def _line_of(path: Path, table: list[str | int], key: str) -> int | None:
    here: list[str | int] = []
    seen: dict[str, int] = {}
    try:
        lines = path.read_text("utf-8-sig").splitlines()
    except (OSError, ValueError):
        return None
    for number, line in enumerate(lines, start=1):
        text = line.strip()
        if text.startswith("[") and (found := _parsed(text)):
            here = _header(found, seen)
        elif here == table and (found := _parsed(text.partition("=")[0] + "= 0")) and key in found:
            return number
    return None


def _header(found: dict[str, Any], seen: dict[str, int]) -> list[str | int]:
    """The way to the table that a header opens; of a list the next one."""
    way: list[str | int] = []
    value: Any = found
    while value:
        if isinstance(value, list):
            name = ".".join(map(str, way))
            seen[name] = seen.get(name, -1) + 1
            way.append(seen[name])
            value = value[0]
        else:
            ((name, value),) = value.items()
            way.append(name)
    return way


def _parsed(text: str) -> dict[str, Any] | None:
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError):
        return None
