"""The configuration of a command: every room's settings, composed. Flags > environment > file > defaults.

config_layers.py   where values come from
config_names.py    what was meant by a name that is not known
config_errors.py   what is wrong, without quoting what may be secret
config_masking.py  a database URL fit to be shown
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from stoker.hygiene.settings import HygieneSettings
from stoker.orchestrator.config_errors import ConfigError, Problem, path_of, problems_of
from stoker.orchestrator.config_layers import (
    DEFAULT,
    Layer,
    find,
    from_database_url,
    from_environment,
    from_file,
    from_flags,
    libpq_knows,
    read_document,
)
from stoker.orchestrator.config_masking import MASK, masked_target, masked_url
from stoker.orchestrator.config_names import LOOPS, MODES, NOTIFY, SCHEDULES, check_document
from stoker.orchestrator.config_secrets import others_can_write, resolve_url
from stoker.orchestrator.notify_settings import DeliverySettings, NotifySettings
from stoker.orchestrator.settings import (
    SECTIONS,
    CodeSettings,
    LimitSettings,
    LogSettings,
    LoopSettings,
    PlanSettings,
    RuntimeSettings,
    ScheduleSettings,
)
from stoker.sql.section import Section, SectionError
from stoker.sql.settings import DatabaseSettings, QueueSettings
from stoker.sql.units import format_duration
from stoker.watchdog.settings import WatchdogSettings
from stoker.worker.settings import MODE_NAME, ModeSettings, WorkerSettings

__all__ = ["Config", "ConfigError", "Problem", "effective", "load"]


@dataclass(frozen=True)
class Config:
    """The configuration in effect: a section each, the modes by name, and what is worth a warning."""

    path: Path
    database: DatabaseSettings
    limits: LimitSettings
    worker: WorkerSettings
    queue: QueueSettings
    hygiene: HygieneSettings
    plan: PlanSettings
    log: LogSettings
    code: CodeSettings
    watchdog: WatchdogSettings
    delivery: DeliverySettings
    runtime: RuntimeSettings
    modes: dict[str, ModeSettings]
    schedules: dict[str, ScheduleSettings] = field(default_factory=dict)
    notify: dict[str, NotifySettings] = field(default_factory=dict)
    loops: dict[str, LoopSettings] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    origins: dict[str, str] = field(default_factory=dict, repr=False)

    @property
    def folder(self) -> Path:
        """Where config.toml lies; handlers are found here."""
        return self.path.parent

    @property
    def embedded(self) -> bool:
        """Nobody said where the database is, so stoker runs its own."""
        return self.database.embedded

    @property
    def served(self) -> dict[str, ModeSettings]:
        """The modes that this host runs: those that [worker] modes names, or all."""
        return {name: mode for name, mode in self.modes.items() if not self.worker.modes or name in self.worker.modes}

    def under(self, schedule: ScheduleSettings) -> "Config":
        """The same with the limits that a schedule tightens."""
        tighter = {
            name: getattr(schedule, name)
            for name in ("max_pool", "task_cap", "wall_clock_seconds", "fire_deadline_seconds")
            if getattr(schedule, name) is not None
        }
        return replace(self, limits=self.limits.changed(**tighter))

    def source(self, key_path: str) -> str:
        """Where the value at a key's path came from: file, environment, flag or default; KeyError for no key."""
        name, _, key = key_path.rpartition(".")
        mode = name.removeprefix(f"{MODES}.") if name.startswith(f"{MODES}.") else None
        section = ModeSettings if mode in self.modes else SECTIONS.get(name)
        if section is None or key not in section.keys:
            raise KeyError(key_path)
        return self.origins.get(key_path, DEFAULT)


def load(path: Path | None, environ: Mapping[str, str], overrides: Mapping[str, object]) -> Config:
    """Read ``path``, or the file found from here upwards. Raises ConfigError with everything that is wrong.

    ``overrides`` are flags by key path; None: not given.
    """
    found = find(path, environ)
    document = read_document(found)
    environment, misnamed, warnings = from_environment(environ)
    flags, misnamed_flags = from_flags(overrides)
    problems = check_document(document) + misnamed + misnamed_flags
    layers = [from_file(document), from_database_url(environ, document), environment, flags]
    warnings += others_can_write(found)
    url_problems, url_warnings = resolve_url(layers, found.parent)
    merged = _merge(layers)
    sections, wrong = _sections(merged, libpq=libpq_knows(environ))
    modes, wrong_modes = _modes(document)
    worker = sections.get("worker")
    problems += _unknown_modes(("worker",), worker.modes, modes) if worker else []
    schedules, wrong_schedules = _schedules(document, modes, sections.get("limits"))
    notify, wrong_notify = _notify(document)
    loops, wrong_loops = _loops(document)
    problems += url_problems + wrong + wrong_modes + wrong_schedules + wrong_notify + wrong_loops
    problems += _looser(modes, sections.get("limits"))
    if problems:
        raise ConfigError(found, problems)
    origins = {".".join(key): layer.origin for layer in layers for key in layer.values}
    origins |= {f"{MODES}.{name}.{key}": "file" for name in modes for key in document[MODES][name]}
    named: dict[str, Any] = {"modes": modes, "schedules": schedules, "notify": notify, "loops": loops}
    return Config(found, **sections, **named, warnings=tuple(warnings + url_warnings), origins=origins)


def effective(config: Config) -> dict[str, Any]:
    """Every value in the notation of the file, with its source; a URL's secrets and what url_file holds are masked."""
    shown: dict[str, Any] = {"file": str(config.path), "embedded": config.embedded}
    for name in SECTIONS:
        shown[name] = _shown(config, name, getattr(config, name))
    url = shown["database"]["url"]
    url["value"] = MASK if config.database.url_file else masked_url(config.database.url)
    shown[MODES] = {name: _shown(config, f"{MODES}.{name}", mode) for name, mode in config.modes.items()}
    shown[SCHEDULES] = [schedule.as_written() for schedule in config.schedules.values()]
    shown[NOTIFY] = {name: {**one.as_written(), "url": masked_target(one.url)} for name, one in config.notify.items()}
    shown[LOOPS] = [loop.as_written() for loop in config.loops.values()]
    return shown


def _shown(config: Config, at: str, section: Section) -> dict[str, Any]:
    return {key: {"value": value, "source": config.source(f"{at}.{key}")} for key, value in section.as_written().items()}


def _merge(layers: Sequence[Layer]) -> dict[str, dict[str, tuple[Any, str]]]:
    """By section and key: the value of the highest layer that has one, and its place."""
    merged: dict[str, dict[str, tuple[Any, str]]] = {name: {} for name in SECTIONS}
    for layer in layers:
        for (section, key), value in layer.values.items():
            merged[section][key] = value, layer.places[section, key]
    return merged


def _sections(merged: Mapping[str, Mapping[str, tuple[Any, str]]], *, libpq: bool) -> tuple[dict[str, Any], list[Problem]]:
    sections: dict[str, Any] = {}
    problems: list[Problem] = []
    for name, given in merged.items():
        values = {key: value for key, (value, _) in given.items()}
        places = {path_of(name, key): place for key, (_, place) in given.items()}
        facts = {"libpq": libpq} if name == "database" else {}
        section, wrong = _validated(SECTIONS[name], (name,), values, facts)
        if section is not None:
            sections[name] = section
        problems += [Problem(p.key, p.wrong, p.remedy, places.get(p.key, p.place)) for p in wrong]
    return sections, problems


def _modes(document: Mapping[str, Any]) -> tuple[dict[str, ModeSettings], list[Problem]]:
    modes: dict[str, ModeSettings] = {}
    problems: list[Problem] = []
    tables = document.get(MODES)
    for name, table in tables.items() if isinstance(tables, dict) else ():
        if not isinstance(table, dict) or not MODE_NAME.fullmatch(name):
            continue
        known = {key: value for key, value in table.items() if key in ModeSettings.keys}
        mode, wrong = _validated(ModeSettings, (MODES, name), known, {})
        problems += wrong
        if isinstance(mode, ModeSettings):
            modes[name] = mode
    return modes, problems


def _notify(document: Mapping[str, Any]) -> tuple[dict[str, NotifySettings], list[Problem]]:
    channels: dict[str, NotifySettings] = {}
    problems: list[Problem] = []
    tables = document.get(NOTIFY)
    for name, table in tables.items() if isinstance(tables, dict) else ():
        if isinstance(table, dict) and MODE_NAME.fullmatch(name):
            known = {key: value for key, value in table.items() if key in NotifySettings.keys}
            channel, wrong = _validated(NotifySettings, (NOTIFY, name), known, {})
            problems += wrong
            channels |= {name: channel} if isinstance(channel, NotifySettings) else {}
    return channels, problems


def _schedules(
    document: Mapping[str, Any], modes: Mapping[str, ModeSettings], limits: LimitSettings | None
) -> tuple[dict[str, ScheduleSettings], list[Problem]]:
    schedules: dict[str, ScheduleSettings] = {}
    problems: list[Problem] = []
    tables = document.get(SCHEDULES)
    for number, table in enumerate(tables if isinstance(tables, list) else ()):
        if not isinstance(table, dict):
            continue
        at = (SCHEDULES, str(number))
        known = {key: value for key, value in table.items() if key in ScheduleSettings.keys}
        schedule, wrong = _validated(ScheduleSettings, at, known, {})
        problems += wrong
        if isinstance(schedule, ScheduleSettings) and schedule.name:
            schedules[schedule.name] = schedule
            problems += _unknown_modes(at, schedule.modes, modes) + _looser_schedule(at, schedule, limits)
    return schedules, problems


def _loops(document: Mapping[str, Any]) -> tuple[dict[str, LoopSettings], list[Problem]]:
    loops: dict[str, LoopSettings] = {}
    problems: list[Problem] = []
    tables = document.get(LOOPS)
    for number, table in enumerate(tables if isinstance(tables, list) else ()):
        known = {key: value for key, value in table.items() if key in LoopSettings.keys} if isinstance(table, dict) else {}
        loop, wrong = _validated(LoopSettings, (LOOPS, str(number)), known, {})
        problems += wrong
        if isinstance(loop, LoopSettings) and loop.name:
            loops[loop.name] = loop
    return loops, problems


def _unknown_modes(at: tuple[str, ...], named: Sequence[str], modes: Mapping[str, ModeSettings]) -> list[Problem]:
    unknown = [name for name in named if name not in modes]
    remedy = "configured: " + (", ".join(modes) or "none")
    return [Problem(path_of(*at, "modes"), f"no mode {name!r} is configured", remedy) for name in unknown]


def _looser_schedule(at: tuple[str, ...], schedule: ScheduleSettings, limits: LimitSettings | None) -> list[Problem]:
    if limits is None:
        return []
    found = (
        _compared((*at, "max_pool"), schedule.max_pool, limits.max_pool, str),
        _compared((*at, "task_cap"), schedule.task_cap, limits.task_cap, str),
        _compared((*at, "wall_clock"), schedule.wall_clock_seconds, limits.wall_clock_seconds, format_duration),
        _compared((*at, "fire_deadline"), schedule.fire_deadline_seconds, limits.fire_deadline_seconds, format_duration),
    )
    return [problem for problem in found if problem]


def _validated(
    section: type[Section], at: tuple[str, ...], values: Mapping[str, Any], facts: dict[str, bool]
) -> tuple[Section | None, list[Problem]]:
    try:
        return section.of(values, **facts), []
    except SectionError as error:
        return None, problems_of(error, at)


def _looser(modes: Mapping[str, ModeSettings], limits: LimitSettings | None) -> list[Problem]:
    """Limits of modes that are looser than those of [limits]."""
    if limits is None:
        return []
    return [
        problem
        for name, mode in modes.items()
        for problem in (
            _compared((MODES, name, "task_cap"), mode.task_cap, limits.task_cap, str),
            _compared((MODES, name, "wall_clock"), mode.wall_clock_seconds, limits.wall_clock_seconds, format_duration),
        )
        if problem
    ]


def _compared(at: tuple[str, ...], own: float | None, limit: float | None, write: Any) -> Problem | None:
    if own is None or limit is None or own <= limit:
        return None
    wrong = f"{write(own)} is looser than [limits] {at[-1]} = {write(limit)}"
    return Problem(path_of(*at), wrong, f"a {at[0].removesuffix('s')} can only tighten a limit")
