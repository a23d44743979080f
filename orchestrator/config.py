"""The configuration: every room's settings, composed. Flags go before the environment, before the file, before defaults.

Bad configuration stops the start, with the file, the key's path, and what was meant. A value is never shown: it may be
a secret.
"""

import os
import stat
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from stoker.hygiene.settings import HygieneSettings
from stoker.orchestrator.config_errors import ConfigError, Problem, explain, unknown_key
from stoker.orchestrator.settings import CodeSettings, LimitSettings, LogSettings, PlanSettings
from stoker.sql.settings import DatabaseSettings, QueueSettings
from stoker.worker.settings import MODE_NAME, ModeSettings, WorkerSettings

SECTIONS: dict[str, type[BaseModel]] = {
    "database": DatabaseSettings,
    "limits": LimitSettings,
    "worker": WorkerSettings,
    "queue": QueueSettings,
    "hygiene": HygieneSettings,
    "plan": PlanSettings,
    "log": LogSettings,
    "code": CodeSettings,
}
_OWN_VARIABLES = frozenset(
    {"STOKER_CONFIG", "STOKER_ENABLED", "STOKER_WORKER", "STOKER_INSTALLATION", "STOKER_FIRE", "STOKER_MODE"}
    | {"STOKER_TASK", "STOKER_ATTEMPT", "STOKER_DELIVERY_ID"}
)
_LIBPQ = ("PGHOST", "PGHOSTADDR", "PGSERVICE", "PGDATABASE")
_SECRET_KEYS = frozenset({"database.url"})


@dataclass(frozen=True)
class Config:
    """The configuration in effect."""

    path: Path
    database: DatabaseSettings
    limits: LimitSettings
    worker: WorkerSettings
    queue: QueueSettings
    hygiene: HygieneSettings
    plan: PlanSettings
    log: LogSettings
    code: CodeSettings
    modes: dict[str, ModeSettings]
    embedded: bool
    warnings: tuple[str, ...] = ()
    sources: dict[str, str] = field(default_factory=dict)

    @property
    def folder(self) -> Path:
        """Where config.toml lies; handlers are found here."""
        return self.path.parent

    def source(self, key: str) -> str:
        """Where the value of ``section.key`` comes from: file, environment, flag or default."""
        return self.sources.get(key, "default")


def load(path: Path | None, environ: Mapping[str, str], overrides: Mapping[str, Any]) -> Config:
    """Read and check the configuration; raises ConfigError. ``overrides`` are flags, by "section.key"."""
    path = find(path, environ)
    raw = _read(path)
    problems: list[Problem] = []
    sources = {f"{section}.{key}": "file" for section, keys in raw.items() if isinstance(keys, dict) for key in keys}
    _apply_environment(raw, environ, sources, problems)
    for name, value in overrides.items():
        section, _, key = name.partition(".")
        raw.setdefault(section, {})[key] = value
        sources[name] = "flag"
    sections = {name: _section(model, raw.pop(name, {}), name, problems) for name, model in SECTIONS.items()}
    modes = _modes(raw.pop("modes", {}), problems)
    problems += [unknown_key(name, "", SECTIONS, ModeSettings) for name in raw]
    if not problems:
        problems += _loose_modes(sections["limits"], modes)
    if problems:
        raise ConfigError(path, problems)
    warnings = _warnings(path, environ)
    return _compose(path, sections, modes, environ, warnings, sources)


def find(path: Path | None, environ: Mapping[str, str]) -> Path:
    """The configuration file: as given, as STOKER_CONFIG says, or the nearest config.toml upwards of here."""
    named = path or (Path(environ["STOKER_CONFIG"]) if environ.get("STOKER_CONFIG") else None)
    if named is not None:
        return named.absolute()
    here = Path.cwd()
    for folder in (here, *here.parents):
        if (folder / "config.toml").is_file():
            return folder / "config.toml"
    raise ConfigError(here / "config.toml", [Problem("", "there is no config.toml here or above", "run: stoker init")])


def effective(config: Config) -> dict[str, Any]:
    """Every value in effect with its source, secrets masked, for ``stoker config``."""
    shown: dict[str, Any] = {"file": str(config.path), "embedded": config.embedded}
    for name in SECTIONS:
        values = getattr(config, name).model_dump(by_alias=True)
        shown[name] = {key: _shown(f"{name}.{key}", value, config) for key, value in values.items()}
    shown["modes"] = {name: mode.model_dump(by_alias=True) for name, mode in config.modes.items()}
    return shown


def _shown(name: str, value: Any, config: Config) -> dict[str, Any]:
    return {"value": "(set)" if name in _SECRET_KEYS and value else value, "source": config.source(name)}


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_bytes().decode())
    except UnicodeDecodeError:
        problem = Problem("", "is not UTF-8", "save it as UTF-8")
    except tomllib.TOMLDecodeError as error:
        problem = Problem("", f"is not TOML: {_without_quotes(str(error))}", "mend that line")
    except OSError as error:
        problem = Problem("", f"cannot be read: {os.strerror(error.errno or 0)}", "check its name, or run: stoker init")
    raise ConfigError(path, [problem])


def _without_quotes(text: str) -> str:
    """What the parser says without what it quotes from the file."""
    head, at, place = text.rpartition(" (at ")
    return f"{head.split(':')[0].split(chr(39))[0].strip()}{at}{place}" if at else "syntax error"


def _apply_environment(
    raw: dict[str, Any], environ: Mapping[str, str], sources: dict[str, str], problems: list[Problem]
) -> None:
    for variable in sorted(environ):
        if not variable.startswith("STOKER_") or variable in _OWN_VARIABLES or variable.startswith("STOKER_TEST_"):
            continue
        section, _, key = variable.removeprefix("STOKER_").lower().partition("_")
        if section not in SECTIONS:
            continue
        keys = _keys(SECTIONS[section])
        if key not in keys:
            problems.append(unknown_key(key, section, SECTIONS, ModeSettings, place=f"environment {variable}"))
            continue
        raw.setdefault(section, {})[key] = _typed(environ[variable], keys[key])
        sources[f"{section}.{key}"] = "environment"


def _keys(model: type[BaseModel]) -> dict[str, Any]:
    """The keys of a section as the file calls them, each with its default."""
    return {info.alias or name: info.default for name, info in model.model_fields.items()}


def _typed(text: str, default: Any) -> Any:
    """An environment's text as the type that the key has in the file."""
    if isinstance(default, bool):
        return {"true": True, "1": True, "false": False, "0": False}.get(text.lower(), text)
    if isinstance(default, int) and text != "none":
        try:
            return int(text)
        except ValueError:
            return text
    return text


def _section(model: type[BaseModel], given: Any, name: str, problems: list[Problem]) -> Any:
    if not isinstance(given, dict):
        problems.append(Problem(name, "must be a section", f"write [{name}] on a line of its own"))
        return None
    try:
        return model.model_validate(given)
    except ValidationError as error:
        problems += explain(error.errors(include_input=False, include_url=False), name, SECTIONS, ModeSettings)
        return None


def _modes(given: Any, problems: list[Problem]) -> dict[str, ModeSettings]:
    if not isinstance(given, dict):
        problems.append(Problem("modes", "must be sections", "write [modes.NAME] on a line of its own"))
        return {}
    modes = {}
    for name, keys in given.items():
        if not MODE_NAME.fullmatch(name):
            fix = "use 1 to 63 of a-z 0-9 _ . -, a letter first"
            problems.append(Problem(f"modes.{name[:80]}", "is not a mode's name", fix))
            continue
        mode = _section(ModeSettings, keys, f"modes.{name}", problems)
        if mode is not None:
            modes[name] = mode
    return modes


def _loose_modes(limits: LimitSettings, modes: Mapping[str, ModeSettings]) -> list[Problem]:
    """A limit of a mode can only tighten that of [limits]."""
    problems = []
    for name, mode in modes.items():
        for key, mine, general in (
            ("task_cap", mode.task_cap, limits.task_cap),
            ("wall_clock", mode.wall_clock_seconds, limits.wall_clock_seconds),
        ):
            if mine is not None and general is not None and mine > general:
                what = f"is looser than limits.{key}; a mode's limit can only be tighter"
                problems.append(Problem(f"modes.{name}.{key}", what, f"lower it, or raise limits.{key}"))
    return problems


def _warnings(path: Path, environ: Mapping[str, str]) -> tuple[str, ...]:
    found = []
    try:
        if path.stat().st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            found.append(f"{path} can be written by others than its owner: chmod go-w it")
    except OSError:
        pass
    if environ.get("STOKER_ENABLED", "").lower() in ("false", "0"):
        found.append("STOKER_ENABLED is false: no fire will start")
    return tuple(found)


def _compose(
    path: Path,
    sections: dict[str, Any],
    modes: dict[str, ModeSettings],
    environ: Mapping[str, str],
    warnings: tuple[str, ...],
    sources: dict[str, str],
) -> Config:
    database: DatabaseSettings = sections.pop("database")
    url = database.url
    if database.url and database.url_file:
        raise ConfigError(path, [Problem("database.url_file", "is given beside url", "give one of the two")])
    if database.url_file:
        url, more = _secret(path, database.url_file)
        warnings += more
    url = url or environ.get("DATABASE_URL", "")
    embedded = not url and not any(environ.get(name) for name in _LIBPQ)
    database = database.model_copy(update={"url": url})
    return Config(path, database, modes=modes, embedded=embedded, warnings=warnings, sources=sources, **sections)


def _secret(path: Path, name: str) -> tuple[str, tuple[str, ...]]:
    """A secret kept in a file of its own, and a warning if others can read it."""
    file = path.parent / name
    try:
        text = file.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError):
        raise ConfigError(path, [Problem("database.url_file", "cannot be read", "check its name and mode")]) from None
    is_open = file.stat().st_mode & (stat.S_IRGRP | stat.S_IROTH)
    return text, ((f"{file} can be read by others than its owner: chmod go-r it",) if is_open else ())
