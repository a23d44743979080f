"""Where values come from: the file, the environment, flags. Each gives a layer; a higher layer wins key by key."""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from stoker.orchestrator.config_errors import FILE, ConfigError, Problem, path_of
from stoker.orchestrator.config_names import MODES, homes_of, meant, nearest
from stoker.orchestrator.settings import SECTIONS

DEFAULT, FROM_FILE, FROM_ENVIRONMENT, FROM_FLAG = "default", "file", "environment", "flag"
KeyPath = tuple[str, ...]
_PREFIX = "STOKER_"
_CONFIG = "STOKER_CONFIG"
_TOLD_TO_CHILDREN = frozenset(
    _PREFIX + name for name in ("WORKER", "INSTALLATION", "FIRE", "TASK", "MODE", "ATTEMPT", "DELIVERY_ID", "CONFIG", "ENABLED")
)
_TESTS = "STOKER_TEST_"
_LIBPQ = ("PGHOST", "PGHOSTADDR", "PGSERVICE", "PGDATABASE")
_TRUTHS = {"true": True, "1": True, "yes": True, "on": True, "false": False, "0": False, "no": False, "off": False}
_INTEGER = re.compile(r"[+-]?[0-9]{1,18}")
_SURELY_MEANT = 0.9
_INIT = "stoker init writes one"


@dataclass(frozen=True, slots=True)
class Layer:
    """What one origin says: values by key path, and the name of the variable or flag behind each."""

    origin: str
    values: dict[KeyPath, Any] = field(default_factory=dict)
    places: dict[KeyPath, str] = field(default_factory=dict)

    def say(self, path: KeyPath, value: Any, place: str = FILE) -> None:
        """Record one value."""
        self.values[path] = value
        self.places[path] = place

    def drop(self, path: KeyPath) -> None:
        """Forget one value."""
        self.values.pop(path, None)
        self.places.pop(path, None)


def find(path: Path | None, environ: Mapping[str, str]) -> Path:
    """The file to read: as given, as STOKER_CONFIG says, else the nearest config.toml upwards. Raises ConfigError."""
    chosen = path or (Path(environ[_CONFIG]) if environ.get(_CONFIG) else None)
    try:
        here = Path.cwd()
    except OSError:
        raise ConfigError(None, [Problem("", "the working directory is gone")]) from None
    if chosen is not None:
        return here / chosen
    for folder in (here, *here.parents):
        if (folder / "config.toml").is_file():
            return folder / "config.toml"
    raise ConfigError(None, [Problem("", f"there is no config.toml in {here} or above", _INIT)])


def read_document(path: Path) -> dict[str, Any]:
    """The TOML in ``path``. Raises ConfigError, which carries no text of the file, not even in what it chains to."""
    document, problem = _read(path)
    if problem is not None:
        raise ConfigError(path, [problem])
    return document


def _read(path: Path) -> tuple[dict[str, Any], Problem | None]:
    try:
        return tomllib.loads(path.read_bytes().decode("utf-8-sig")), None
    except FileNotFoundError:
        return {}, Problem("", "there is no such file", _INIT)
    except OSError as error:
        return {}, Problem("", f"cannot be read: {error.strerror}")
    except UnicodeDecodeError as error:
        return {}, Problem("", f"is not UTF-8 at byte {error.start}")
    except tomllib.TOMLDecodeError as error:
        return {}, Problem("", f"is not TOML: {error}", "text stands in quotes, true and false in lower case")
    except (ValueError, RecursionError):
        return {}, Problem("", "is not TOML: a number is too long, or lists are nested too deep")


def libpq_knows(environ: Mapping[str, str]) -> bool:
    """libpq's own variables say where the database is."""
    return any(environ.get(name) for name in _LIBPQ)


def from_file(document: Mapping[str, Any]) -> Layer:
    """The known keys of the file."""
    layer = Layer(FROM_FILE)
    for name, section in SECTIONS.items():
        _take(layer, (name,), document.get(name), section.keys)
    return layer


def _take(layer: Layer, at: KeyPath, table: Any, known: Mapping[str, Any]) -> None:
    if isinstance(table, dict):
        for key, value in table.items():
            if key in known:
                layer.say((*at, key), value)


def from_environment(environ: Mapping[str, str]) -> tuple[Layer, list[Problem], list[str]]:
    """The layer of STOKER_<SECTION>_<KEY>; what is wrong; and what is read by nobody."""
    layer, problems, warnings = Layer(FROM_ENVIRONMENT), [], []
    variables = {f"{_PREFIX}{s}_{key}".upper(): (s, key) for s, section in SECTIONS.items() for key in section.keys}
    for name in sorted(environ):
        if not name.startswith(_PREFIX) or name in _TOLD_TO_CHILDREN or name.startswith(_TESTS):
            continue
        if name in variables:
            layer.say(variables[name], from_text(variables[name], environ[name]), name)
        elif problem := _misnamed(name, variables):
            problems.append(problem)
        else:
            warnings.append(f"the environment has {name}, which is no setting of stoker")
    return layer, problems, warnings


def from_database_url(environ: Mapping[str, str], document: Mapping[str, Any]) -> Layer:
    """The layer of DATABASE_URL, which is anybody's: it counts where the file does not say where the database is."""
    layer, section = Layer(FROM_ENVIRONMENT), document.get("database")
    is_said = isinstance(section, dict) and bool(section.get("url") or section.get("url_file"))
    if environ.get("DATABASE_URL") and not is_said:
        layer.say(("database", "url"), environ["DATABASE_URL"], "DATABASE_URL")
    return layer


def _misnamed(name: str, variables: Mapping[str, KeyPath]) -> Problem | None:
    section = next((s for s in [*SECTIONS, MODES] if name.startswith(f"{_PREFIX}{s.upper()}_")), None)
    if section == MODES:
        return Problem(name, "modes are not set by the environment", "write them in the file")
    if section is not None:
        key = name.removeprefix(f"{_PREFIX}{section.upper()}_").lower()
        near = nearest(name, [v for v in variables if v.startswith(f"{_PREFIX}{section.upper()}_")])
        elsewhere = [v for v, path in variables.items() if path[1] == key]
        if elsewhere or (near and not homes_of(key)):
            return Problem(name, "unknown variable", f"did you mean {' or '.join(elsewhere) or near}?")
        return Problem(name, "unknown variable", meant(section, key))
    near = nearest(name, [*variables, _CONFIG], _SURELY_MEANT)
    return Problem(name, "unknown variable", f"did you mean {near}?") if near else None


def from_flags(overrides: Mapping[str, object]) -> tuple[Layer, list[Problem]]:
    """The layer of flags, by key path such as "limits.max_pool"; None means that the flag was not given."""
    layer, problems = Layer(FROM_FLAG), []
    for name, value in overrides.items():
        section, _, key = name.partition(".")
        if value is None:
            continue
        if section in SECTIONS and key in SECTIONS[section].keys:
            layer.say((section, key), from_text((section, key), value), "a flag")
        else:
            remedy = meant(section, key) if section in SECTIONS else "the sections are " + ", ".join(SECTIONS)
            problems.append(Problem(path_of(*name.split(".")), "unknown key", remedy, "a flag"))
    return layer, problems


def _words(text: str) -> object:
    """A list of texts, as a shell would read them; what it could not read stays as it is."""
    import shlex

    try:
        return shlex.split(text)
    except ValueError:
        return text


def from_text(path: KeyPath, value: object) -> object:
    """The value that ``value``, if it is text, stands for at a key that holds a truth, a number or a list; else as it is."""
    kind = SECTIONS[path[0]].keys[path[1]].holds
    if not isinstance(value, str):
        return value
    if kind == tuple[str, ...]:
        return _words(value)
    if kind is bool:
        return _TRUTHS.get(value.lower(), value)
    return int(value) if kind in (int, int | None) and _INTEGER.fullmatch(value) else value
