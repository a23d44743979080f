"""The folder of the embedded server: its files, who may own them, the locks on them, and the socket's address."""

import fcntl
import hashlib
import os
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from stoker.sql.embedded.failure import EmbeddedServerError, ServerStartError

SOCKET_NAME = ".s.PGSQL.5432"
POLL_SECONDS = 0.005
_SOCKET_PATH_BYTES = 107
_LOG_BYTES = 8 * 1024 * 1024
_LOG_TAIL_BYTES = 8192


@dataclass(frozen=True, slots=True)
class Place:
    """A folder, absolute and without links, in which one server lives."""

    home: Path

    @property
    def data(self) -> Path:
        """PostgreSQL's data folder."""
        return self.home / "data"

    @property
    def staging(self) -> Path:
        """Where a data folder is made before it gets its name; what is here after a crash is worthless."""
        return self.home / "data.new"

    @property
    def log(self) -> Path:
        """Everything that the server and initdb say."""
        return self.home / "postgres.log"

    def major(self) -> int | None:
        """Read the PostgreSQL version of the data; None when there is none yet."""
        try:
            return int((self.data / "PG_VERSION").read_text("ascii"))
        except FileNotFoundError:
            return None
        except ValueError:
            raise EmbeddedServerError(f"{self.data}/PG_VERSION is damaged; restore {self.data} from a backup.") from None

    def data_owner(self) -> int | None:
        """Look up the uid that owns the data; None when there is none yet."""
        return self.data.stat().st_uid if self.major() else None

    def prepare(self) -> None:
        """Make the folder, for its owner alone; raises EmbeddedServerError when it is somebody else's."""
        self.home.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = self.home.stat()
        if os.geteuid() not in {0, status.st_uid}:
            raise EmbeddedServerError(f"{self.home} belongs to uid {status.st_uid}, not to you ({os.geteuid()}).")
        if stat.S_IMODE(status.st_mode) != 0o700:
            self.home.chmod(0o700)
        if not (self.home / ".gitignore").exists():
            (self.home / ".gitignore").write_text("*\n")

    @contextmanager
    def opened(self, name: str, flags: int = os.O_RDWR) -> Iterator[int]:
        """Open a file in the folder, made for the folder's owner if it is not there."""
        descriptor = os.open(self.home / name, flags | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            if os.geteuid() == 0:
                status = self.home.stat()
                os.fchown(descriptor, status.st_uid, status.st_gid)
            yield descriptor
        finally:
            os.close(descriptor)

    @contextmanager
    def held(self, patience_seconds: float) -> Iterator[int]:
        """Hold the right to start or stop the server; its descriptor keeps it when a child inherits it."""
        deadline = time.monotonic() + patience_seconds
        with self.opened("lock") as descriptor:
            while not try_lock(descriptor):
                if time.monotonic() > deadline:
                    raise ServerStartError(
                        f"another process has been starting or stopping the server in {self.home} for"
                        f" {patience_seconds:g} s.{self.last_words()}"
                    )
                time.sleep(POLL_SECONDS)
            yield descriptor

    def all_gone(self) -> bool:
        """Whether no process of a server started here lives."""
        with self.opened("server.lock") as descriptor:
            return try_lock(descriptor)

    def last_words(self) -> str:
        """Read the last lines of the server's log, for the end of an error's text."""
        try:
            with self.log.open("rb") as log:
                log.seek(max(0, self.log.stat().st_size - _LOG_TAIL_BYTES))
                lines = log.read().decode("utf-8", "replace").splitlines()[-15:]
        except OSError:
            return ""
        return "\n".join([f" The last lines of {self.log}:", *lines]) if lines else ""

    def shorten_log(self) -> None:
        """Begin a new log when the old one is over 8 MB; one old one is kept."""
        with suppress(FileNotFoundError):
            if self.log.stat().st_size > _LOG_BYTES:
                self.log.replace(self.log.with_suffix(".log.1"))

    def socket_folder(self) -> Path:
        """Where the socket of this data is: in the data folder, or in a temporary one when that path is too long.

        The temporary one is named after the data's own identifier too, so that a deleted and newly made server never
        meets, and never loses its socket to, the one whose folder was deleted under it.
        """
        if _fits(self.data):
            return self.data
        with (self.data / "global" / "pg_control").open("rb") as control:
            identifier = os.fsencode(self.home) + control.read(8)
        name = f"stoker-{self.data.stat().st_uid}-{hashlib.sha256(identifier).hexdigest()[:16]}"
        folders = [Path(tempfile.gettempdir()).resolve() / name, Path("/tmp") / name]  # noqa: S108 -- 0700, verified
        return next(filter(_fits, folders))

    def is_private(self, folder: Path) -> bool:
        """Whether ``folder`` is one that only this server's owner can enter."""
        try:
            status = folder.lstat()
        except FileNotFoundError:
            return False
        mine = status.st_uid in {os.geteuid(), self.data.stat().st_uid}
        return mine and stat.S_ISDIR(status.st_mode) and stat.S_IMODE(status.st_mode) == 0o700


def socket_url(folder: Path) -> str:
    """Make the URL of the server's database, for libpq and psql as it is; PGPORT and PGHOST do not bend it."""
    return f"postgresql://stoker@/stoker?host={quote(os.fsencode(folder), safe='')}&port=5432"


def try_lock(descriptor: int) -> bool:
    """Take the file's lock if it is free; it is kept until every copy of the descriptor is closed."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _fits(folder: Path) -> bool:
    """Whether a socket can live there: the kernel bounds the path, and libpq reads a comma as a list of hosts."""
    text = os.fsencode(folder / SOCKET_NAME)
    return len(text) <= _SOCKET_PATH_BYTES and b"," not in text and text.isascii() and text.decode().isprintable()
