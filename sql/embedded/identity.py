"""Who answers on a socket, and whether a process is the server of this folder. A pid alone proves nothing."""

import os
import socket
import struct
import time
from dataclasses import dataclass
from pathlib import Path

from stoker.sql.embedded.place import SOCKET_NAME, Place

# A server that is full lives too.
_ALIVE = frozenset({"00000", "53300"})
_STARTUP = b"user\0stoker\0database\0stoker\0application_name\0stoker probe\0\0"
_PROTOCOL_3 = 196608
_PATIENCE_SECONDS = 2.0
_CLOCK_SLACK_SECONDS = 3


@dataclass(frozen=True, slots=True)
class Claimed:
    """What postmaster.pid claims: a pid, when it started (epoch seconds), and the folder of its socket."""

    pid: int
    started: int
    socket_folder: Path


@dataclass(frozen=True, slots=True)
class Answer:
    """What came from a socket: the SQLSTATE ("" for silence) and the pid of the process that listens (0: unseen)."""

    sqlstate: str
    pid: int

    @property
    def alive(self) -> bool:
        """Whether a session can be had, now or when another one ends."""
        return self.sqlstate in _ALIVE


def read_claim(place: Place) -> Claimed | None:
    """Read what the data folder's postmaster.pid claims; None when it is not there or makes no sense."""
    try:
        lines = (place.data / "postmaster.pid").read_text("utf-8", "surrogateescape").splitlines()
        pid, started, folder = int(lines[0]), int(lines[2]), place.data / lines[4]
    except (OSError, ValueError, IndexError):
        return None
    return Claimed(pid, started, Path(os.path.normpath(folder))) if pid > 0 else None


def is_server(place: Place, pid: int) -> bool | None:
    """Whether ``pid`` is a postgres that works in this data folder; None when that cannot be seen from here."""
    try:
        program = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0]
        if program.rpartition(b"/")[2] != b"postgres":
            return False
        return os.path.samestat(Path(f"/proc/{pid}/cwd").stat(), place.data.stat())
    except PermissionError:
        return None
    except OSError:
        return None if not Path("/proc/self/cwd").exists() else False


def is_claimed_server(place: Place, claim: Claimed) -> bool:
    """Whether the process that postmaster.pid names is this folder's server, and began when the file says."""
    began = _began(claim.pid)
    fits = began is not None and abs(began - claim.started) <= _CLOCK_SLACK_SECONDS
    return fits and is_server(place, claim.pid) is True


def ask(folder: Path) -> Answer | None:
    """Open a session on the socket in ``folder`` and close it again; None when nobody listens."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(_PATIENCE_SECONDS)
        try:
            connection.connect(os.fsencode(folder / SOCKET_NAME))
        except (FileNotFoundError, ConnectionRefusedError):
            return None
        except OSError:
            return Answer("", 0)
        pid = _listener(connection)
        try:
            connection.sendall(struct.pack("!ii", len(_STARTUP) + 8, _PROTOCOL_3) + _STARTUP)
            return Answer(_read_outcome(connection), pid)
        except (OSError, EOFError):
            return Answer("", pid)


def _listener(connection: socket.socket) -> int:
    if not hasattr(socket, "SO_PEERCRED"):
        return 0
    pid: int = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]
    return pid


def _read_outcome(connection: socket.socket) -> str:
    with connection.makefile("rb") as stream:
        while True:
            kind, length = struct.unpack("!ci", _exactly(stream.read(5), 5))
            body = _exactly(stream.read(length - 4), length - 4)
            if kind == b"Z":
                connection.sendall(b"X\0\0\0\4")
                return "00000"
            if kind == b"E":
                return next((field[1:].decode() for field in body.split(b"\0") if field[:1] == b"C"), "")


def _exactly(data: bytes, size: int) -> bytes:
    if len(data) != size:
        raise EOFError
    return data


def _began(pid: int) -> float | None:
    """When the process began, in epoch seconds by the clock as it stands now; None when it is gone."""
    try:
        ticks = int(Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()[19])
    except (OSError, IndexError):
        return None
    age_seconds = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    return time.time() - age_seconds
