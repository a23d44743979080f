"""Make a data folder, and launch its server detached from whoever asked for it."""

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from stoker.sql.embedded.account import Account, run
from stoker.sql.embedded.binaries import Binaries
from stoker.sql.embedded.failure import ServerStartError
from stoker.sql.embedded.place import Place, try_lock

_SETTINGS = """
# What stoker needs. Nothing that was committed is lost when power fails; there are no replicas.
fsync = on
synchronous_commit = on
full_page_writes = on
wal_level = minimal
max_wal_senders = 0
shared_buffers = 128MB
max_connections = 100
jit = off
listen_addresses = ''
unix_socket_permissions = 0700
logging_collector = off
"""


@dataclass(frozen=True, slots=True)
class Options:
    """How to start: the major version of a new folder, settings on top of the durable ones, patience in seconds."""

    major: int | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    user_namespace: bool = True
    patience_seconds: float = 60.0


def make_data(place: Place, binaries: Binaries, account: Account, options: Options, lock: int) -> None:
    """Make the data folder beside its place and rename it when it is whole, so that half of one is never used."""
    if place.staging.exists():
        shutil.rmtree(place.staging)
    flags = ["--username=stoker", "--auth-local=trust", "--auth-host=reject", "--encoding=UTF8", "--locale=C"]
    flags += ["--data-checksums", "--no-instructions"]
    if binaries.major >= 17:  # the first with a locale that does not depend on the system's
        flags += ["--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
    if options.settings.get("fsync") == "off":
        flags += ["--no-sync"]
    with place.opened("postgres.log", os.O_WRONLY | os.O_APPEND) as log:
        run([*account.prefix, str(binaries.initdb), "-D", str(place.staging), *flags], output=log, inherit=(lock,))
        if not (place.staging / "global" / "pg_control").exists():
            raise ServerStartError(f"initdb failed in {place.staging}.{place.last_words()}")
        with (place.staging / "postgresql.conf").open("a", encoding="utf-8") as configuration:
            configuration.write(_SETTINGS)
        single = [*account.prefix, str(binaries.postgres), "--single", "-D", str(place.staging), "postgres"]
        run(single, output=log, inherit=(lock,), text="create database stoker\n")
    place.staging.rename(place.data)
    _sync_folder(place.home)


def launch(place: Place, binaries: Binaries, account: Account, options: Options) -> None:
    """Start the server and return at once; it belongs to nobody, and holds ``server.lock`` while it lives."""
    folder = place.socket_folder()
    if folder != place.data:
        _make_socket_folder(place, folder, account)
    # Relative where it can be, so that the socket moves with the folder and is never removed by path by another's.
    address = "." if folder == place.data else str(folder)
    settings = {"unix_socket_directories": '"' + address.replace('"', '""') + '"', **options.settings}
    flags = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
    command = [*account.prefix, str(binaries.postgres), "-D", str(place.data), *flags]
    with place.opened("server.lock") as alive, place.opened("postgres.log", os.O_WRONLY | os.O_APPEND) as log:
        try_lock(alive)
        run(command, output=log, inherit=(alive,), detached=True)


def _make_socket_folder(place: Place, folder: Path, account: Account) -> None:
    folder.mkdir(mode=0o700, exist_ok=True)
    if not place.is_private(folder):
        raise ServerStartError(f"{folder} is not ours alone; remove it, or set TMPDIR to another folder.")
    if account.owner and not account.reaches_everything:
        os.chown(folder, account.owner.pw_uid, account.owner.pw_gid, follow_symlinks=False)


def give(folder: Path, account: Account) -> None:
    """Make everything in ``folder`` the account's own."""
    if account.owner is None:
        return
    for parent, _, names in os.walk(folder, topdown=False):
        for path in (*(os.path.join(parent, name) for name in names), parent):  # noqa: PTH118 -- thousands of files
            os.chown(path, account.owner.pw_uid, account.owner.pw_gid, follow_symlinks=False)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
