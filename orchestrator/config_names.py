"""What was meant by a name that is not known: a key spelt wrong, a key in the wrong section, a section spelt wrong."""

from collections.abc import Iterable
from typing import Any

from stoker.orchestrator.config_errors import Problem, path_of
from stoker.orchestrator.notify_settings import NotifySettings
from stoker.orchestrator.settings import SECTIONS, LoopSettings, ScheduleSettings
from stoker.sql.section import Section, key_of, kind_of
from stoker.worker.settings import MODE_NAME, ModeSettings

MODES, SCHEDULES, NOTIFY, LOOPS = "modes", "schedules", "notify", "loops"
_A_MODE = "modes.<name>"
_KEYS = {name: list(section.keys) for name, section in SECTIONS.items()} | {
    _A_MODE: list(ModeSettings.keys),
    SCHEDULES: list(ScheduleSettings.keys),
    NOTIFY: list(NotifySettings.keys),
    LOOPS: list(LoopSettings.keys),
}
_EVERY_KEY = {key for keys in _KEYS.values() for key in keys}


def check_document(document: dict[str, Any]) -> list[Problem]:
    """Every name in the file that is unknown or in a wrong place, and every section that is no table."""
    problems: list[Problem] = []
    for name, table in document.items():
        if name == MODES:
            problems += _check_modes(table)
        elif name == SCHEDULES:
            problems += _check_tables(SCHEDULES, table, ScheduleSettings)
        elif name == NOTIFY:
            problems += _check_notify(table)
        elif name == LOOPS:
            problems += _check_tables(LOOPS, table, LoopSettings)
        elif name not in SECTIONS:
            problems.append(_stranger_at_top(name, table))
        elif not isinstance(table, dict):
            problems.append(Problem(name, f"expected a table, got {kind_of(table)}", f"write [{name}]"))
        else:
            problems += _check_keys((name,), table, SECTIONS[name])
    return problems


def meant(section: str, key: str) -> str:
    """What was probably meant by ``key``, which ``section`` does not have."""
    known = _KEYS.get(section, _KEYS[_A_MODE])
    if key_of(key) in known:
        return f"did you mean {key_of(key)}?"
    if homes := homes_of(key):
        return f"it belongs in {homes}"
    if key in SECTIONS or key == MODES:
        return f"it is a section: [{key}]"
    if near := nearest(key, known):
        return f"did you mean {near}?"
    return _near_anywhere(key) or f"[{section}] has {', '.join(known)}"


def homes_of(key: str) -> str:
    """The sections that have ``key``, as they are written; empty when none has.

    A schedule, a channel and a loop mostly repeat what others have.
    """
    homes = [section for section, keys in _KEYS.items() if key in keys and section not in (SCHEDULES, NOTIFY, LOOPS)]
    if not homes:
        written = {SCHEDULES: f"[[{SCHEDULES}]]", NOTIFY: f"[{NOTIFY}.<name>]", LOOPS: f"[[{LOOPS}]]"}
        return " or ".join(shown for section, shown in written.items() if key in _KEYS[section])
    return " or ".join(f"[{section}]" for section in homes)


def nearest(name: str, names: Iterable[str], cutoff: float = 0.6) -> str | None:
    """The most similar of ``names``, if any is similar enough."""
    from difflib import get_close_matches  # only when something is wrong

    return next(iter(get_close_matches(name, sorted(names), 1, cutoff)), None)


def _near_anywhere(key: str) -> str:
    near = nearest(key, _EVERY_KEY)
    return f"did you mean {near}, in {homes_of(near)}?" if near else ""


def _check_keys(at: tuple[str, ...], table: dict[str, Any], section: type[Section]) -> list[Problem]:
    known = section.keys
    return [
        Problem(path_of(*at, key), "unknown key", _dotted_mode(at, key, value) or meant(at[0], key))
        for key, value in table.items()
        if key not in known
    ]


def _dotted_mode(at: tuple[str, ...], key: str, value: object) -> str:
    """The remedy for [modes.a.b], where TOML sees a table b in a mode a, and a mode "a.b" was meant."""
    name = ".".join((*at[1:], key))
    is_one = at[0] == MODES and isinstance(value, dict) and MODE_NAME.fullmatch(name)
    return f'a name with a dot stands in quotes: [modes."{name}"]' if is_one else ""


def _stranger_at_top(name: str, value: object) -> Problem:
    what = "unknown section" if isinstance(value, dict | list) else "unknown key"
    near = nearest(name, [*SECTIONS, MODES, NOTIFY])
    if homes := homes_of(name):
        remedy = f"it belongs in {homes}"
    elif isinstance(value, dict) and not {"handler", "command"}.isdisjoint(value):
        remedy = f"did you mean [{path_of(MODES, name)}]?"
    elif near:
        remedy = f"did you mean [{near}]?"
    else:
        remedy = _near_anywhere(name) or "the sections are " + ", ".join(f"[{section}]" for section in _KEYS)
    return Problem(path_of(name), what, remedy)


def _check_tables(listed: str, tables: object, section: type[Section]) -> list[Problem]:
    if not isinstance(tables, list) or not all(isinstance(one, dict) for one in tables):
        return [Problem(listed, f"expected a list of tables, got {kind_of(tables)}", f"write [[{listed}]] for each")]
    problems: list[Problem] = []
    names: set[object] = set()
    one = listed.removesuffix("s")
    for number, table in enumerate(tables):
        problems += _check_keys((listed, str(number)), table, section)
        name = table.get("name", "")
        if not name or name in names:
            wrong = f"there is another {one} {name!r}" if name else "has no name"
            problems.append(Problem(path_of(listed, str(number), "name"), wrong, f"give each {one} a name of its own"))
        names.add(name if isinstance(name, str) else "")
    return problems


def _check_notify(channels: object) -> list[Problem]:
    if not isinstance(channels, dict) or not all(isinstance(one, dict) for one in channels.values()):
        return [Problem(NOTIFY, "expected tables", "write [notify.<name>] for each channel")]
    remedy = "use 1 to 63 characters of a-z 0-9 _ . - and begin with a letter"
    strange = [name for name in channels if not MODE_NAME.fullmatch(name)]
    problems = [Problem(path_of(NOTIFY, name), "not a name for a channel", remedy) for name in strange]
    for name, table in channels.items():
        problems += _check_keys((NOTIFY, name), table, NotifySettings)
    return problems


def _check_modes(modes: object) -> list[Problem]:
    if not isinstance(modes, dict):
        return [Problem(MODES, f"expected a table, got {kind_of(modes)}", "write [modes.<name>] for each mode")]
    problems: list[Problem] = []
    for name, table in modes.items():
        path = path_of(MODES, name)
        if not isinstance(table, dict):
            remedy = f"it belongs in {homes_of(name)}" if homes_of(name) else "write [modes.<name>] for each mode"
            problems.append(Problem(path, f"expected a table, got {kind_of(table)}", remedy))
            continue
        if not MODE_NAME.fullmatch(name):
            remedy = "use 1 to 63 characters of a-z 0-9 _ . - and begin with a letter"
            problems.append(Problem(path, "not a name for a mode", remedy))
        problems += _check_keys((MODES, name), table, ModeSettings)
    return problems
