"""The units and the compose file that are shown are what this stoker takes, and give nobody more rights than it needs."""

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from urllib.parse import quote, urlsplit

import psycopg
import pytest
import yaml
from tests.end_to_end.project import COMMAND, Project

from stoker.sql.embedded import find_binaries
from stoker.sql.migrate import migrate

EXAMPLES = Path(__file__).parents[2] / "examples"
UNITS = sorted((EXAMPLES / "systemd").iterdir())
HOME = "/srv/shop"
PROGRAMS = {"stoker": COMMAND, "stoker-watchdog": (sys.executable, "-P", "-m", "stoker.watchdog.cli")}
SYSTEMD = shutil.which("systemd-analyze")


def keys(path: Path) -> list[tuple[str, str, str]]:
    """(section, key, value) of each line of a unit."""
    found, section = [], ""
    for line in path.read_text().splitlines():
        text = line.strip()
        if text.startswith("["):
            section = text.strip("[]")
        elif text and not text.startswith(("#", ";")):
            key, equals, value = text.partition("=")
            assert "" not in (section, equals), f"{path.name}: {line}"
            found.append((section, key, value))
    return found


def is_taken(words: list[str]) -> bool:
    """Whether the program of that name knows these words; nothing is done."""
    before = words[1 : words.index("--")] if "--" in words else words[1:]
    program = PROGRAMS[Path(words[0]).name]
    done = subprocess.run([*program, *before, "--help"], capture_output=True, text=True, timeout=60, check=False)
    named = [word for word in before if word.startswith("--")]
    assert done.returncode == 0, f"{words}: {done.stderr}"
    return all(name in done.stdout for name in named)


def test_every_command_of_a_unit_is_known() -> None:
    """Subcommands and options, by the real command line."""
    commands = [value for path in UNITS for _, key, value in keys(path) if key in ("ExecStart", "ExecStop")]
    assert len(commands) >= 8
    for command in commands:
        words = shlex.split(command)
        assert words[0].startswith(f"{HOME}/.venv/bin/"), command
        assert is_taken(words), command


def test_units_point_at_each_other_and_at_what_is_there() -> None:
    """A timer has its service; nobody waits for a unit that is not shown."""
    names = {path.name for path in UNITS}
    shown = {"multi-user.target", "timers.target", "network-online.target"} | names
    for path in UNITS:
        of = keys(path)
        assert {section for section, *_ in of} <= {"Unit", "Service", "Timer", "Install"}
        if path.suffix == ".timer":
            assert path.with_suffix(".service").name in names
        for _, key, value in of:
            if key in ("After", "Before", "Wants", "WantedBy"):
                assert set(value.split()) <= shown, f"{path.name}: {key}={value}"


@pytest.mark.skipif(SYSTEMD is None, reason="systemd-analyze is not installed here")
def test_systemd_finds_nothing_wrong_with_them(tmp_path: Path) -> None:
    """With the folder of this test in the place of /srv/shop."""
    folder = tmp_path / "shop"
    (folder / ".venv/bin").mkdir(parents=True)
    for name in PROGRAMS:
        (folder / ".venv/bin" / name).symlink_to(Path(sys.executable).parent / name)
    copies = []
    for path in UNITS:
        copies.append(tmp_path / path.name)
        text = path.read_text().replace(HOME, str(folder)).replace("User=shop", f"User={os.getuid()}")
        copies[-1].write_text(text)
    done = subprocess.run(
        [str(SYSTEMD), "verify", "--man=no", "--recursive-errors=no", *map(str, copies)],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    said = [line for line in done.stderr.splitlines() if str(tmp_path) in line or "stoker" in line or "backup." in line]
    assert (done.returncode, said) == (0, []), done.stderr


def test_only_migrate_has_the_owners_rights() -> None:
    """Of the services of the compose file; each command is known, and each secret is there."""
    compose = yaml.safe_load((EXAMPLES / "compose" / "compose.yaml").read_text())
    services = compose["services"]
    assert set(services) == {"database", "migrate", "run", "watchdog"}
    has = {name: set(service["secrets"]) for name, service in services.items()}
    assert has["migrate"] == {"owner_url"}
    assert has["run"] == has["watchdog"] == {"run_url"}
    assert set.union(*has.values()) == set(compose["secrets"])
    for name in ("migrate", "run", "watchdog"):
        environment = services[name]["environment"]
        assert environment["STOKER_DATABASE_URL_FILE"] == f"/run/secrets/{next(iter(has[name]))}"
        words = services[name]["command"]
        lines = words[2].split("&&") if words[0] == "/bin/sh" else [shlex.join(words)]
        assert all(is_taken(shlex.split(line)) for line in lines)
    assert services["migrate"]["depends_on"]["database"] == {"condition": "service_healthy"}
    for name in ("run", "watchdog"):
        assert services[name]["depends_on"] == {"migrate": {"condition": "service_completed_successfully"}}


def test_what_the_compose_file_does_works_on_a_real_server(project: Project, tmp_path: Path) -> None:
    """R82: the script makes the roles; the owner, who is no superuser, migrates; the other one fires."""
    psql = find_binaries().psql
    if not psql.exists():
        pytest.skip("no psql comes with the embedded server here")
    secrets, parts = tmp_path / "secrets", urlsplit(project.url)
    secrets.mkdir()
    urls = {}
    for name, role in (("owner_url", "stoker_owner"), ("run_url", "stoker_run")):
        urls[name] = parts._replace(netloc=f"{role}:{quote('s3cret')}@").geturl()
        (secrets / name).write_text(urls[name] + "\n")
    with psycopg.connect(project.url, autocommit=True) as connection:
        connection.execute("drop schema stoker cascade")
    query = dict(pair.split("=") for pair in parts.query.split("&"))
    environment = {
        "PATH": f"{psql.parent}:{os.environ['PATH']}",
        "PGHOST": query["host"].replace("%2F", "/"),
        "POSTGRES_USER": "stoker",
        "POSTGRES_DB": parts.path.strip("/"),
        "SECRETS": str(secrets),
    }
    try:
        done = subprocess.run(
            ["sh", str(EXAMPLES / "compose" / "roles.sh")], env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        for name in ("config.toml", "jobs.py"):
            shutil.copy(EXAMPLES / "compose" / name, project.folder)
        owner, runner = ({"STOKER_DATABASE_URL_FILE": str(secrets / name)} for name in ("owner_url", "run_url"))
        for words in (["migrate"], ["db", "grants", "stoker_run"], ["sweep"]):
            done = project.run(*words, **owner)
            assert done.returncode == 0, f"{words}: {done.stderr}"
        assert project.run("enqueue", "hello", '{"name": "world"}', **runner).returncode == 0
        assert "1 done" in project.run("fire", **runner).stdout
        assert project.run("migrate", **runner).returncode == 1
        with psycopg.connect(urls["run_url"], autocommit=True) as connection:
            assert connection.execute("select rolsuper from pg_roles where rolname = current_user").fetchall() == [(False,)]
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute("create schema another")
    finally:
        with psycopg.connect(project.url, autocommit=True) as connection:
            for role in ("stoker_run", "stoker_owner"):
                connection.execute(f"drop owned by {role} cascade".encode())
                connection.execute(f"drop role {role}".encode())
        migrate(project.url)
