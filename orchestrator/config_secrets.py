"""The database's URL from the one place that gives it, and files that others could read or change."""

import stat
from collections.abc import Sequence
from pathlib import Path

from stoker.orchestrator.config_errors import Problem
from stoker.orchestrator.config_layers import Layer

_URL, _URL_FILE = ("database", "url"), ("database", "url_file")
_LONGEST_SECRET = 64 << 10


def others_can_write(path: Path) -> list[str]:
    """A warning if someone else than its owner may change the file."""
    mode = _mode(path)
    return [f"{path} can be written by others: chmod go-w it"] if mode & (stat.S_IWGRP | stat.S_IWOTH) else []


def resolve_url(layers: Sequence[Layer], folder: Path) -> tuple[list[Problem], list[str]]:
    """Keep url and url_file of the highest layer that has either; read the secret. Its path starts in ``folder``."""
    giving = [layer for layer in layers if {_URL, _URL_FILE} & layer.values.keys()]
    for layer in giving[:-1]:
        layer.drop(_URL)
        layer.drop(_URL_FILE)
    if not giving:
        return [], []
    layer = giving[-1]
    name = layer.values.get(_URL_FILE)
    if not isinstance(name, str) or not name or "\0" in name:
        return [], []
    place = layer.places[_URL_FILE]
    if layer.values.get(_URL):
        return [Problem("database.url_file", "is given together with url", "keep one of the two", place)], []
    url, wrong = _secret(folder / name)
    if wrong:
        return [Problem("database.url_file", wrong, "it holds one line: the database's URL", place)], []
    layer.say(_URL, url, "url_file")
    return [], _exposed(folder / name)


def _exposed(path: Path) -> list[str]:
    readable = _mode(path) & (stat.S_IRGRP | stat.S_IROTH)
    return (["database.url_file can be read by others: chmod go-r it"] if readable else []) + (
        ["database.url_file can be written by others: chmod go-w it"] if others_can_write(path) else []
    )


def _secret(path: Path) -> tuple[str, str]:
    """The text in the file, and what is wrong with it."""
    try:
        if not path.is_file():
            return "", "is no file"
        with path.open("rb") as file:
            text = file.read(_LONGEST_SECRET + 1).decode().strip()
    except OSError as error:
        return "", f"cannot be read: {error.strerror}"
    except UnicodeDecodeError:
        return "", "is not UTF-8"
    return (text, "") if 0 < len(text) <= _LONGEST_SECRET else ("", "is empty or too long")


def _mode(path: Path) -> int:
    try:
        return path.stat().st_mode
    except OSError:
        return 0
