"""The configuration: what is taken, where from, and what is said when it cannot be used (R30, R41, R81, T21)."""

import json
import os
import pickle
import re
import subprocess
import sys
import tomllib
import traceback
from collections.abc import Callable, Iterator
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import pytest

from stoker.orchestrator.config import Config, ConfigError, effective, load
from stoker.orchestrator.config_masking import masked_url
from stoker.orchestrator.notify_settings import KINDS, NotifySettings
from stoker.orchestrator.settings import SECTIONS, LoopSettings, ScheduleSettings
from stoker.worker.settings import ModeSettings

REFERENCE = Path(__file__).parents[2] / "config.toml"
CANARY = "hunter2canary"
DSN = f"postgresql://app:{CANARY}@db.example/app"
MODE = 'handler = "jobs:run"'
Write = Callable[..., Path]

KEYS = [(section, key) for section, model in SECTIONS.items() for key in model.keys]
MODE_KEYS = [("modes.thing", key) for key in ModeSettings.keys]
ALL_KEYS = KEYS + MODE_KEYS
HOMES = [*SECTIONS, "modes.thing"]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes a config.toml, by default one that only its owner can change."""

    def writer(text: str, mode: int = 0o600) -> Path:
        path = tmp_path / "config.toml"
        path.write_text(text, "utf-8")
        path.chmod(mode)
        return path

    return writer


def refused(path: Path | None, environ: dict[str, str] | None = None, **overrides: object) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        load(path, environ or {}, {key.replace("__", "."): value for key, value in overrides.items()})
    return caught.value


def default_of(section: str, key: str) -> Any:
    return written_defaults(section)[key]


def written_defaults(section: str) -> dict[str, Any]:
    if section in SECTIONS:
        return SECTIONS[section]().as_written()
    return ModeSettings.of({"handler": "jobs:run"}).as_written()


def model_keys(section: str) -> set[str]:
    return set(SECTIONS.get(section, ModeSettings).keys)


def toml(value: Any) -> str:
    return json.dumps(value)


def table(section: str, *lines: str) -> str:
    own = [MODE] if section.startswith("modes.") and not any(line.startswith("handler") for line in lines) else []
    return "\n".join([f"[{section}]", *own, *lines])


def sinks(error: ConfigError) -> Iterator[str]:
    """Everywhere the text of an error may end up."""
    chain: list[BaseException] = [error]
    for one in chain:
        chain += [other for other in (one.__cause__, one.__context__) if other is not None]
        yield from (str(one), repr(one), repr(one.args), repr(vars(one)))
    yield "".join(traceback.format_exception(error))
    yield json.dumps([[p.key, p.wrong, p.remedy, p.place] for p in error.problems])
    yield repr(pickle.loads(pickle.dumps(error)))


# The reference


def test_the_reference_shows_every_key_with_its_default_and_no_other() -> None:
    assert tomllib.loads(REFERENCE.read_text("utf-8")) == {name: model().as_written() for name, model in SECTIONS.items()}


def test_the_example_of_a_mode_shows_every_key_with_its_default_and_no_other() -> None:
    text = REFERENCE.read_text("utf-8")
    block = text[text.index("# [modes.example]") :]
    example = tomllib.loads(re.sub(r"^# ?", "", block, flags=re.MULTILINE))["modes"]["example"]
    assert example == ModeSettings.of({"handler": example["handler"]}).as_written()


def test_the_example_of_a_schedule_shows_every_key_with_its_default_and_no_other() -> None:
    text = REFERENCE.read_text("utf-8")
    block = text[text.index("# [[schedules]]") : text.index("# [modes.example]")]
    lines = [re.sub(r"^# ?", "", line) for line in block.splitlines() if line.startswith(("# ", "#\n"))]
    (example,) = tomllib.loads("\n".join(line for line in lines if re.match(r"[a-z_]+ = |\[\[", line)))["schedules"]
    written = ScheduleSettings.of({"name": example["name"], "cron": example["cron"]}).as_written()
    assert example == {key: value for key, value in written.items() if key != "every"}
    assert '# # every = "' in block


def test_the_example_of_a_channel_shows_every_key_with_its_default_and_no_other() -> None:
    text = REFERENCE.read_text("utf-8")
    block = text[text.index("# [notify.example]") : text.index("# When fires are due")]
    example = tomllib.loads(re.sub(r"^# ?", "", block, flags=re.MULTILINE))["notify"]["example"]
    assert example == {**NotifySettings().as_written(), "kind": "webhook"}
    assert all(f"# ## {kind}: " in block for kind in KINDS)


def test_the_example_of_a_loop_shows_every_key_with_its_default_and_no_other() -> None:
    text = REFERENCE.read_text("utf-8")
    block = text[text.index("# [[loops]]") : text.index("# A mode is a kind of work")]
    (example,) = tomllib.loads(re.sub(r"^# ?", "", block, flags=re.MULTILINE))["loops"]
    assert example == LoopSettings.of({"name": example["name"], "handler": example["handler"]}).as_written()


def test_the_reference_is_a_configuration_that_equals_the_defaults(write: Write) -> None:
    reference, nothing = load(REFERENCE, {}, {}), load(write(""), {}, {})
    assert [getattr(reference, name) for name in SECTIONS] == [getattr(nothing, name) for name in SECTIONS]
    assert reference.source("limits.max_pool") == "file"
    assert nothing.source("limits.max_pool") == "default"


@pytest.mark.parametrize(("section", "key"), ALL_KEYS)
def test_every_key_in_the_reference_has_a_comment_before_it(section: str, key: str) -> None:
    lines = REFERENCE.read_text("utf-8").splitlines()
    start = lines.index(f"[{section}]") if section in SECTIONS else lines.index("# [modes.example]")
    at = next(n for n, line in enumerate(lines[start:], start) if re.match(rf"(# )?{key} = ", line))
    block = next(n for n in range(at - 1, 0, -1) if not re.match(r"(# )?[a-z_]+ = ", lines[n]))
    assert re.match(r"#( ##)? \S", lines[block]), f"no comment before {key}"


# What is taken


def test_units_become_numbers_whose_names_say_the_unit(write: Write) -> None:
    config = load(write(f'[worker]\nlease = "1m30s"\noutput_limit = "2KiB"\n[modes.a]\n{MODE}\ntimeout = "none"'), {}, {})
    assert (config.worker.lease_seconds, config.worker.output_limit_bytes) == (90.0, 2048)
    assert config.modes["a"].timeout_seconds is None


def test_none_switches_an_interlock_off_and_less_than_zero_is_zero(write: Write) -> None:
    off = ("fires_per_day", "min_gap", "task_cap", "wall_clock", "fire_deadline")
    limits = load(write("[limits]\n" + "\n".join(f'{key} = "none"' for key in off)), {}, {}).limits
    assert {limits.fires_per_day, limits.min_gap_seconds, limits.task_cap, limits.wall_clock_seconds} == {None}
    limits = load(write("[limits]\nfires_per_day = -1\nmax_pool = 0\ntask_cap = -7"), {}, {}).limits
    assert (limits.fires_per_day, limits.max_pool, limits.task_cap) == (0, 0, 0)


@pytest.mark.parametrize("key", ["max_pool", "timezone"])
def test_the_pool_and_the_time_zone_cannot_be_switched_off(write: Write, key: str) -> None:
    assert f"limits.{key}" in str(refused(write(f'[limits]\n{key} = "none"')))


@pytest.mark.parametrize(("lease", "renew"), [("30s", "10s"), ("300ms", "100ms"), ("1m", "20s")])
def test_a_lease_of_three_renewals_is_accepted(write: Write, lease: str, renew: str) -> None:
    load(write(f'[worker]\nlease = "{lease}"\nrenew_every = "{renew}"'), {}, {})


@pytest.mark.parametrize("lines", ['lease = "29s"', 'renew_every = "10001ms"', 'lease = "10s"\nrenew_every = "10s"'])
def test_a_lease_shorter_than_three_renewals_is_refused(write: Write, lines: str) -> None:
    """R41."""
    message = str(refused(write(f"[worker]\n{lines}")))
    assert "lease = " in message
    assert "at least three times renew_every" in message


@pytest.mark.parametrize(("key", "loose", "limit"), [("task_cap", "26", "25"), ("wall_clock", '"16m"', "15m")])
def test_a_mode_may_only_tighten_a_limit_and_the_message_names_both(write: Write, key: str, loose: str, limit: str) -> None:
    message = str(refused(write(f"[modes.a]\n{MODE}\n{key} = {loose}")))
    assert f"modes.a.{key}: {loose.strip(chr(34))} is looser than [limits] {key} = {limit}" in message
    load(write(f"[limits]\n{key} = {loose}\n[modes.a]\n{MODE}\n{key} = {loose}"), {}, {})
    load(write(f'[limits]\n{key} = "none"\n[modes.a]\n{MODE}\n{key} = {loose}'), {}, {})


@pytest.mark.parametrize("lines", ["", f'{MODE}\ncommand = ["run"]'])
def test_a_mode_needs_exactly_one_of_handler_and_command(write: Write, lines: str) -> None:
    assert "modes.a: needs exactly one of handler" in str(refused(write(f"[modes.a]\n{lines}")))


@pytest.mark.parametrize("name", ["a", "a" * 63, "a.b-c_1"])
def test_a_name_of_a_mode_is_taken(write: Write, name: str) -> None:
    assert list(load(write(f'[modes."{name}"]\n{MODE}'), {}, {}).modes) == [name]


@pytest.mark.parametrize("name", ["", "A", "1a", "a" * 64, "a b", "é", ".a", "a\\u001b[2J"])
def test_a_name_that_no_mode_can_have_is_refused_and_printed_harmlessly(write: Write, name: str) -> None:
    message = str(refused(write(f'[modes."{name}"]\n{MODE}')))
    assert "not a name for a mode" in message
    assert "\x1b" not in message


@pytest.mark.parametrize("name", ["x", 'Odd "name"; --', "ü" * 31, "a.b", " "])
def test_odd_names_of_schemas_are_legal(write: Write, name: str) -> None:
    assert load(write(f"[database]\nschema = {toml(name)}"), {}, {}).database.schema_name == name


@pytest.mark.parametrize("name", ["", "a" * 64, "ü" * 32, "a\0b"])
def test_a_schema_that_postgresql_cannot_have_is_refused(write: Write, name: str) -> None:
    assert "database.schema: must be 1 to 63 bytes" in str(refused(write(f"[database]\nschema = {toml(name)}")))


@pytest.mark.parametrize("name", ["", "Europe", "Europe/Berlim", "/etc/localtime", "../UTC", "utc\0"])
def test_an_unknown_time_zone_is_refused(write: Write, name: str) -> None:
    assert "limits.timezone: is no time zone" in str(refused(write(f"[limits]\ntimezone = {toml(name)}")))


@pytest.mark.parametrize(
    ("section", "line"),
    [
        ("limits", 'wall_clock = "0s"'),
        ("limits", 'fire_deadline = "0s"'),
        ("limits", "max_pool = 99999999999"),
        ("database", 'statement_timeout = "0.1ms"'),
        ("database", 'lock_timeout = "25d"'),
        ("worker", "batch_limit = 0"),
        ("worker", 'result_limit = "0B"'),
        ("queue", "span_length = 0"),
        ("modes.a", "weight = 0"),
        ("modes.a", "weight = nan"),
        ("modes.a", "backoff_factor = inf"),
        ("modes.a", "max_attempts = 0"),
        ("modes.a", "version = 2147483648"),
        ("modes.a", 'env = ["A=b"]'),
        ("modes.a", 'command = [""]'),
    ],
)
def test_a_value_out_of_range_is_refused_by_its_path(write: Write, section: str, line: str) -> None:
    message = str(refused(write(table(section, line))))
    assert f"{section}.{line.partition(' ')[0]}: must " in message


# Where it comes from


@pytest.mark.parametrize(("section", "key"), KEYS)
def test_every_key_can_be_set_by_its_variable(write: Write, section: str, key: str) -> None:
    """R81: environment and file in conflict; the environment wins, and says so."""
    value = default_of(section, key)
    text = {True: "false", False: "true"}[value] if isinstance(value, bool) else "" if value == [] else str(value)
    config = load(write(""), {f"STOKER_{section}_{key}".upper(): text}, {})
    assert config.source(f"{section}.{key}") == "environment"
    if isinstance(value, bool):
        assert getattr(config, section).as_written()[key] is not value
    else:
        assert getattr(config, section).as_written()[key] == value


def test_flags_go_before_the_environment_before_the_file_before_defaults(write: Write) -> None:
    path, environ = write("[limits]\nmax_pool = 2\ntask_cap = 2\nfires_per_day = 2"), {}
    environ |= {"STOKER_LIMITS_MAX_POOL": "3", "STOKER_LIMITS_TASK_CAP": "3"}
    config = load(path, environ, {"limits.max_pool": 4, "limits.wall_clock": None})
    limits = config.limits
    assert (limits.max_pool, limits.task_cap, limits.fires_per_day, limits.wall_clock_seconds) == (4, 3, 2, 900.0)
    keys = ("max_pool", "task_cap", "fires_per_day", "wall_clock")
    assert [config.source(f"limits.{key}") for key in keys] == ["flag", "environment", "file", "default"]


def test_the_source_of_a_mode_s_key_is_known_and_of_no_key_is_an_error(write: Write) -> None:
    config = load(write(f'[modes."a.b"]\n{MODE}'), {}, {})
    assert (config.source("modes.a.b.handler"), config.source("modes.a.b.label")) == ("file", "default")
    for path in ("limits.nothing", "modes.other.handler", "handler"):
        with pytest.raises(KeyError):
            config.source(path)


@pytest.mark.parametrize(
    ("text", "environ", "url", "embedded", "source"),
    [
        ("", {}, "", True, "default"),
        ("", {"DATABASE_URL": DSN}, DSN, False, "environment"),
        ('url = "postgres:///file"', {"DATABASE_URL": DSN}, "postgres:///file", False, "file"),
        ('url = ""', {"DATABASE_URL": DSN}, DSN, False, "environment"),
        ('url = "postgres:///file"', {"PGHOST": "x"}, "postgres:///file", False, "file"),
        ("", {"DATABASE_URL": DSN, "STOKER_DATABASE_URL": "postgres:///own"}, "postgres:///own", False, "environment"),
        ("", {"DATABASE_URL": DSN, "STOKER_DATABASE_URL": ""}, "", True, "environment"),
        ("", {"PGHOST": "x"}, "", False, "default"),
        ("", {"PGDATABASE": "x"}, "", False, "default"),
        ("", {"PGSERVICE": "x"}, "", False, "default"),
        ("", {"PGHOST": "", "PGUSER": "x", "PGPORT": "1"}, "", True, "default"),
    ],
)
def test_the_database_is_where_the_strongest_says(
    write: Write, text: str, environ: dict[str, str], url: str, embedded: bool, source: str
) -> None:
    config = load(write(f"[database]\n{text}"), environ, {})
    assert (config.database.url, config.database.embedded, config.source("database.url")) == (url, embedded, source)


def test_the_url_is_read_from_its_file_beside_the_configuration(write: Write, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text(DSN + "\n")
    secret.chmod(0o600)
    config = load(write('[database]\nurl_file = "secret"'), {}, {})
    assert (config.database.url, config.warnings) == (DSN, ())
    assert CANARY not in repr(config)
    secret.chmod(0o644)
    assert "can be read by others" in str(load(write('[database]\nurl_file = "secret"'), {}, {}).warnings)


def test_a_url_of_a_stronger_origin_goes_before_a_url_file_of_a_weaker_one(write: Write) -> None:
    path = write('[database]\nurl_file = "/nowhere"')
    config = load(path, {"STOKER_DATABASE_URL": "postgres:///x"}, {})
    assert (config.database.url, config.database.url_file) == ("postgres:///x", "")
    assert load(path, {"DATABASE_URL": DSN}, {"database.url": "postgres:///y"}).database.url == "postgres:///y"


@pytest.mark.parametrize("content", [None, b"", b"\xff", b"x" * 70_000, b"mysql://u:" + CANARY.encode() + b"@h"])
def test_a_url_file_that_holds_no_url_is_refused_without_showing_it(
    write: Write, tmp_path: Path, content: bytes | None
) -> None:
    if content is not None:
        (tmp_path / "secret").write_bytes(content)
    error = refused(write('[database]\nurl_file = "secret"'))
    assert "database.url" in str(error)
    assert not [text for text in sinks(error) if CANARY in text]


def test_url_and_url_file_together_are_refused(write: Write) -> None:
    error = refused(write(f'[database]\nurl = "{DSN}"\nurl_file = "/{CANARY}"'))
    assert "database.url_file: is given together with url" in str(error)
    assert not [text for text in sinks(error) if CANARY in text]


def test_the_nearest_file_upwards_is_found(write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write("")
    (tmp_path / "a" / "b").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "a" / "b")
    assert load(None, {}, {}).path == path
    (tmp_path / "a" / "config.toml").write_text("")
    config = load(None, {}, {})
    assert (config.path, config.folder) == (tmp_path / "a" / "config.toml", tmp_path / "a")
    assert load(None, {"STOKER_CONFIG": str(path)}, {}).path == path
    assert load(Path("../config.toml"), {"STOKER_CONFIG": str(path)}, {}).folder.resolve() == tmp_path / "a"


def test_without_a_file_the_message_says_how_to_make_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for error in (refused(None), refused(tmp_path / "other.toml"), refused(None, {"STOKER_CONFIG": "other.toml"})):
        assert "stoker init" in str(error)


@pytest.mark.parametrize("mode", [0o620, 0o602])
def test_a_file_that_others_can_write_is_warned_of(write: Write, mode: int) -> None:
    """T21."""
    assert load(write("", 0o644), {}, {}).warnings == ()
    assert "can be written by others: chmod go-w" in load(write("", mode), {}, {}).warnings[0]


def test_variables_that_stoker_gives_its_children_are_no_keys(write: Write) -> None:
    names = ["WORKER", "INSTALLATION", "FIRE", "TASK", "MODE", "ATTEMPT", "DELIVERY_ID", "ENABLED", "TEST_POSTGRES"]
    assert load(write(""), {f"STOKER_{name}": "x" for name in names}, {}).warnings == ()


def test_a_variable_that_resembles_no_setting_is_only_warned_of(write: Write) -> None:
    (warning,) = load(write(""), {"STOKER_VERSION": CANARY}, {}).warnings
    assert "STOKER_VERSION" in warning
    assert CANARY not in warning


# What is refused (R81)


def misspelt(key: str) -> str:
    return key[:-2] + key[-1] + key[-2] if len(key) > 3 and key[-1] != key[-2] else key + "s"


@pytest.mark.parametrize(("section", "key"), ALL_KEYS)
def test_every_misspelt_key_is_refused_with_what_was_meant(write: Write, section: str, key: str) -> None:
    wrong = misspelt(key)
    message = str(refused(path := write(table(section, f"{wrong} = {toml(default_of(section, key))}"))))
    assert str(path) in message
    assert f"{section}.{wrong}: unknown key; did you mean {key}?" in message


@pytest.mark.parametrize(("section", "key"), ALL_KEYS)
def test_every_misplaced_key_is_refused_with_the_section_it_belongs_in(write: Write, section: str, key: str) -> None:
    home = "[modes.<name>]" if section.startswith("modes.") else f"[{section}]"
    for other in HOMES:
        if key in model_keys(other):
            continue
        message = str(refused(write(table(other, f"{key} = {toml(default_of(section, key))}"))))
        assert re.search(rf"{re.escape(other)}\.{key}: unknown key; it belongs in .*{re.escape(home)}", message)
    for at_top in (f"[modes]\n{key} = 1", *([] if key == "modes" else [f"{key} = 1"])):
        message = str(refused(write(at_top)))
        assert re.search(rf"it belongs in .*{re.escape(home)}", message)


@pytest.mark.parametrize(("section", "key"), ALL_KEYS)
def test_every_wrong_type_is_refused_with_what_was_expected_and_given(write: Write, section: str, key: str) -> None:
    for text, kind in (("1979-05-27", "a date or time"), ("{}", "a table"), (f'[["{CANARY}"]]', "a list")):
        error = refused(write(table(section, f"{key} = {text}")))
        pattern = rf"{re.escape(section)}\.{key}(\[0\])?: expected .+, got {kind}$"
        assert re.search(pattern, str(error), re.MULTILINE), str(error)
        assert not [sink for sink in sinks(error) if CANARY in sink]


@pytest.mark.parametrize(("section", "key"), KEYS)
def test_every_misspelt_variable_is_refused_with_the_one_that_was_meant(write: Write, section: str, key: str) -> None:
    name, wrong = f"STOKER_{section}_{key}".upper(), f"STOKER_{section}_{misspelt(key)}".upper()
    message = str(refused(write(""), {wrong: CANARY}))
    assert f"{wrong}: unknown variable; did you mean {name}?" in message
    assert CANARY not in message


@pytest.mark.parametrize("section", SECTIONS)
def test_every_misspelt_section_is_refused_with_the_one_that_was_meant(write: Write, section: str) -> None:
    message = str(refused(write(f"[{section}s]")))
    assert f"{section}s: unknown section; did you mean [{section}]?" in message
    assert f"{section}: expected a table, got a whole number" in str(refused(write(f"{section} = 1")))
    assert f"{section}: expected a table, got a list" in str(refused(write(f"[[{section}]]")))


@pytest.mark.parametrize(
    ("environ", "said"),
    [
        ({"STOKER_LIMIT_MAX_POOL": "1"}, "did you mean STOKER_LIMITS_MAX_POOL?"),
        ({"STOKER_WORKER_MAX_POOL": "1"}, "did you mean STOKER_LIMITS_MAX_POOL?"),
        ({"STOKER_LIMITS_TIMEOUT": "1"}, "it belongs in [modes.<name>]"),
        ({"STOKER_MODES_A_TIMEOUT": "1m"}, "modes are not set by the environment"),
        ({"STOKER_CONFGI": "x"}, "did you mean STOKER_CONFIG?"),
        ({"STOKER_LIMITS_MAX_POOL": "many"}, "expected a whole number, got text (from STOKER_LIMITS_MAX_POOL)"),
        ({"STOKER_HYGIENE_REAP_GHOSTS": "maybe"}, "expected true or false, got text (from STOKER_HYGIENE_REAP_GHOSTS)"),
        ({"STOKER_WORKER_LEASE": "30"}, 'write for example "15m", "1h30m" or "250ms" (from STOKER_WORKER_LEASE)'),
    ],
)
def test_a_wrong_variable_is_refused_and_named(write: Write, environ: dict[str, str], said: str) -> None:
    assert said in str(refused(write(""), environ))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"[thumbnails]\n{MODE}", "did you mean [modes.thumbnails]?"),
        (f"[modes.shop.thumbnails]\n{MODE}", 'stands in quotes: [modes."shop.thumbnails"]'),
        ("[database.limits]\nmax_pool = 1", "it is a section: [limits]"),
        ("[worker]\nlease_seconds = 30", "did you mean lease?"),
        ("[worker]\nmax_pol = 1", "did you mean max_pool, in [limits]?"),
        (
            "[worker]\nlease = 30",
            'worker.lease: expected a duration such as "15m", "1h30m" or "250ms", got a whole number',
        ),
        ("[worker]\noutput_limit = 64", 'expected a size such as "64KiB" or "1MiB", got a whole number'),
        ("[limits]\nmax_pool = true", "limits.max_pool: expected a whole number, got true or false"),
        (
            '[database]\nurl = "postgresql+psycopg://h/d"',
            'database.url: names a driver: begin with "postgresql://" alone',
        ),
        ("modes = 1", "modes: expected a table, got a whole number"),
    ],
)
def test_a_mistake_is_answered_with_what_to_write(write: Write, text: str, said: str) -> None:
    assert said in str(refused(write(text)))


def test_an_unknown_flag_is_refused(write: Write) -> None:
    assert "limits.max_pol: unknown key; did you mean max_pool? (from a flag)" in str(refused(write(""), limits__max_pol=1))


def test_all_that_is_wrong_is_said_at_once(write: Write) -> None:
    text = "[limit]\n[limits]\nmax_pool = 1.5\n[log]\nlevle = 1\n[modes.a]\n[modes.B]"
    error = refused(write(text), {"STOKER_LOG_FORMAT": "loud"})
    keys = {"limit", "limits.max_pool", "log.levle", "log.format", "modes.a", "modes.B"}
    assert {problem.key for problem in error.problems} == keys
    assert len(str(error).splitlines()) == len(keys) + 1


# Nothing leaks (R30)


@pytest.mark.parametrize(
    "text",
    [
        f'[database]\nurl = "{DSN}"\nwebhook_secret = "{CANARY}"\n[modes.a]\nlabel = "x"',
        f'[database]\nurl = ["{DSN}"]\nschema = {{ password = "{CANARY}" }}',
        f'[database]\nurl = "mysql://app:{CANARY}@db/app"',
        f'[database]\nurl = "postgresql+psycopg://app:{CANARY}@db/app"',
        f'[webhook]\nsecret = "{CANARY}"',
        f'"https://hook.example/{CANARY}" = 1',
        f'[limits]\nmax_pool = "{CANARY}"\ntimezone = "{CANARY}"\nwall_clock = "{CANARY}"',
        f'[log]\nlevel = "{CANARY}"\n[code]\nversion = "{CANARY * 30}"',
        f'[modes.a]\nhandler = "{CANARY}"\nenv = ["A={CANARY}"]\ncommand = ["\\u0000{CANARY}"]\nerrors = "{CANARY}"',
        f'[modes.a]\nhandler = "a:b"\ncommand = ["{CANARY}"]',
        f'[database]\nurl = "{DSN}\n',
        f"[database]\nurl = {CANARY}",
        f'[database]\nurl = "{DSN}" {CANARY}',
        "[limits]\nmax_pool = " + "9" * 5000 + f' # "{CANARY}"',
        f'x = "{CANARY}"\ny = ' + "[" * 100_000,
    ],
)
def test_what_is_refused_is_shown_nowhere(write: Write, text: str) -> None:
    """R30: the value of a bad configuration is in no text, argument, traceback or chained error."""
    error = refused(write(text))
    assert error.problems
    assert not [sink for sink in sinks(error) if CANARY in sink]
    assert (error.__cause__, error.__context__) == (None, None)


def test_what_is_refused_from_the_environment_is_shown_nowhere(write: Write) -> None:
    environ = dict.fromkeys(("STOKER_DATABASE_URL", "STOKER_DATABASE_PASWORD", "STOKER_LIMITS_MAX_POOL"), CANARY)
    error = refused(write(""), environ)
    assert len(error.problems) == len(environ)
    assert not [sink for sink in sinks(error) if CANARY in sink]


def test_a_syntax_error_names_its_line(write: Write) -> None:
    assert "is not TOML" in (message := str(refused(write('[limits]\n\nmax_pool = "x\n'))))
    assert "line 3" in message


def test_bytes_that_are_no_text_are_refused_and_a_byte_order_mark_is_not(write: Write, tmp_path: Path) -> None:
    path = write("")
    path.write_bytes(b"\xef\xbb\xbf[limits]\nmax_pool = 3")
    assert load(path, {}, {}).limits.max_pool == 3
    path.write_bytes(b"[limits]\n# \xff")
    assert "is not UTF-8 at byte 11" in str(refused(path))
    assert "cannot be read" in str(refused(tmp_path))


def test_the_effective_configuration_is_printable_with_sources_and_without_secrets(write: Write) -> None:
    config = load(write(f'[database]\nurl = "{DSN}"\n[modes.a]\n{MODE}'), {"STOKER_LIMITS_WALL_CLOCK": "10m"}, {})
    shown = effective(config)
    assert CANARY not in json.dumps(shown) + repr(config)
    assert shown["database"]["url"] == {"value": "postgresql://app:***@db.example/app", "source": "file"}
    assert shown["limits"]["wall_clock"] == {"value": "10m", "source": "environment"}
    assert shown["modes"]["a"]["timeout"] == {"value": "10m", "source": "default"}


def test_what_a_url_file_holds_is_masked_as_a_whole(write: Write, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text(DSN)
    shown = effective(load(write('[database]\nurl_file = "secret"'), {}, {}))
    assert shown["database"]["url"]["value"] == "***"
    assert "db.example" not in json.dumps(shown)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("", ""),
        ("postgresql:///app", "postgresql:///app"),
        ("postgresql://app@h:1/app?sslmode=require", "postgresql://app@h:1/app?sslmode=require"),
        (f"postgresql://app:{CANARY}@a,b/app", "postgresql://app:***@a,b/app"),
        (f"postgresql://app:{CANARY}@{CANARY}@h/app", "postgresql://app:***@h/app"),
        (f"postgresql://app:{CANARY}/{CANARY}?#@h/app", "postgresql://app:***@h/app"),
        (f"postgresql://h/app?password={CANARY}&host=x", "postgresql://h/app?password=***&host=x"),
        (f"postgresql://h/app?%70assword={CANARY}", "postgresql://h/app?%70assword=***"),
        (f"host=h password={CANARY} dbname=d", "host=h password=*** dbname=d"),
        (f"host=h password = '{CANARY} \\' {CANARY}' user=u", "host=h password=*** user=u"),
        (f"host=h password='{CANARY}", "***"),
        (f"password=a://{CANARY}", "password=***"),
    ],
)
def test_a_url_is_shown_without_its_secrets(url: str, shown: str) -> None:
    assert masked_url(url) == shown


# Shape


def test_the_configuration_cannot_be_changed(write: Write) -> None:
    config = load(write(f"[modes.a]\n{MODE}"), {}, {})
    for target in (config, config.limits, config.modes["a"]):
        with pytest.raises((AttributeError, ValueError)):
            target.version = 1  # type: ignore[union-attr]


@pytest.mark.parametrize("module", ["sql.settings", "worker.settings", "hygiene.settings", "orchestrator.config"])
def test_settings_import_neither_driver_nor_command_line(module: str) -> None:
    heavy = ["psycopg", "tenacity", "typer", "click", "rich", "structlog", "anyio", "apscheduler"]
    script = f"import sys, stoker.{module}; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, env=os.environ)
    assert done.stdout.strip() == "[]"


def test_no_misspelling_of_this_test_is_a_key() -> None:
    assert not [key for section, key in ALL_KEYS if misspelt(key) in model_keys(section)]
    assert all(get_close_matches(misspelt(key), [key]) for _, key in ALL_KEYS)
    assert Config.__dataclass_params__.frozen  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("loop", "wrong"),
    [
        ('name = "a"', "needs exactly one of handler"),
        ('name = "a"\nhandler = "jobs:run"\ncommand = ["x"]', "has both"),
        ('name = "a"\nhandler = "jobs"', "package.module:function"),
        ('handler = "jobs:run"', "give each loop a name of its own"),
        ('name = "A b"\nhandler = "jobs:run"', "use 1 to 63 characters"),
        ('name = "a"\nhandler = "jobs:run"\ntier = "main"', "tier"),
        ('name = "a"\nhandler = "jobs:run"\njitter = 2', "jitter"),
        ('name = "a"\nhandler = "jobs:run"\nintervall = "1m"', "did you mean interval?"),
        ('name = "a"\nhandler = "jobs:run"\n[[loops]]\nname = "a"\nhandler = "jobs:run"', "there is another loop 'a'"),
    ],
)
def test_a_loop_that_is_wrong_stops_the_start(write: Write, loop: str, wrong: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(wrong)):
        load(write(f"[[loops]]\n{loop}"), {}, {})


def test_loops_come_by_name_and_are_shown_as_they_were_written(write: Write) -> None:
    config = load(write('[[loops]]\nname = "a"\ncommand = ["x", "y"]\ninterval = "90s"\ntier = "core"'), {}, {})
    assert (config.loops["a"].interval_seconds, config.loops["a"].command) == (90.0, ("x", "y"))
    (shown,) = effective(config)["loops"]
    assert (shown["interval"], shown["tier"], shown["time_limit"]) == ("1m30s", "core", "5m")


@pytest.mark.parametrize("address", ["8080", "127.0.0.1", ":80", "127.0.0.1:http", "127.0.0.1:65536"])
def test_an_address_for_probes_has_a_host_and_a_port(write: Write, address: str) -> None:
    with pytest.raises(ConfigError, match="host:port"):
        load(write(f'[runtime]\nhttp = "{address}"'), {}, {})
    assert load(write('[runtime]\nhttp = "[::1]:8080"'), {}, {}).runtime.http == "[::1]:8080"
