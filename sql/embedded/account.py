"""Under which account PostgreSQL runs here, and the one way in which its programs are started.

PostgreSQL refuses to run as root, and initdb as a uid without a name. Who may make user namespaces runs it as itself
under another number, so that files keep their owner; a root that may not lends it an unprivileged account.
"""

import os
import pwd
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from stoker.sql.embedded.failure import ServerStartError
from stoker.sql.embedded.place import Place

_ACCOUNTS = ("postgres", "nobody", "daemon")
_CAP_DAC_OVERRIDE = 1
_ENVIRONMENT = frozenset({"PATH", "LANG", "TZ", "HOME"})
# The shell ends at once, so that the server is nobody's child who could wait for it, and has a session of its own.
_DETACH = '"$@" &'


@dataclass(frozen=True, slots=True)
class Account:
    """How to run a program that refuses root: the words before it, and who has to own the data (None: as it is)."""

    prefix: tuple[str, ...] = ()
    owner: pwd.struct_passwd | None = None
    reaches_everything: bool = True


def choose_account(place: Place, postgres: Path, *, user_namespace: bool = True) -> Account:
    """Find the first account that can run ``postgres`` and write ``place.home``; each is tried, none is guessed.

    Raises ServerStartError when there is none.
    """
    if os.geteuid() != 0 and _numbered(os.geteuid()):
        return Account()
    for account in _candidates(place, user_namespace=user_namespace):
        test = 'test -w "$1" && test -x "$2" && echo yes'
        if run([*account.prefix, "/bin/sh", "-c", test, "sh", str(place.home), str(postgres)]).endswith("yes\n"):
            return account
    raise ServerStartError(
        f"PostgreSQL refuses to run as uid {os.geteuid()}, and neither a user namespace (unshare) nor another account"
        f" (setpriv) can use {place.home} and {postgres} here. Run stoker as an ordinary user, or set [database] url."
    )


def _candidates(place: Place, *, user_namespace: bool) -> Iterator[Account]:
    spare = next(filter(None, map(_named, _ACCOUNTS)), None)
    home_owner = place.home.stat().st_uid
    data_owner = place.data_owner()
    owner = home_owner if data_owner is None else data_owner
    if owner == os.geteuid() and spare and user_namespace:
        mapping = f"--map-user={spare.pw_uid}", f"--map-group={spare.pw_gid}"
        yield Account(("unshare", "--user", *mapping, "--"))
    entry = _numbered(owner or home_owner) if owner or home_owner else spare
    if entry:
        # The capability opens the folders above the data. It is lent only where root alone can reach the socket: a
        # superuser of the database can run programs with it.
        lend = home_owner == 0 and _may_override()
        capability = ("--inh-caps=+dac_override", "--ambient-caps=+dac_override") if lend else ()
        ids = f"--reuid={entry.pw_uid}", f"--regid={entry.pw_gid}", "--clear-groups"
        yield Account(("setpriv", *ids, *capability, "--"), entry, reaches_everything=lend)


def run(
    arguments: Sequence[str],
    *,
    output: int = subprocess.PIPE,
    inherit: tuple[int, ...] = (),
    text: str = "",
    detached: bool = False,
) -> str:
    """Run a program to its end, or start it ``detached``; what it wrote ("" if it is not there or wrote elsewhere).

    It gets a session of its own, the file descriptors in ``inherit``, ``text`` on stdin, and no environment but the
    names PostgreSQL needs. Its exit status is not returned: where SIGCHLD is ignored there is none.
    """
    command = ["/bin/sh", "-c", _DETACH, "sh", *arguments] if detached else list(arguments)
    try:
        done = subprocess.run(
            command,
            check=False,
            cwd="/",
            encoding="utf-8",
            env={name: value for name, value in os.environ.items() if name in _ENVIRONMENT or name.startswith("LC_")},
            errors="replace",
            input=text,
            pass_fds=inherit,
            start_new_session=True,
            stderr=subprocess.STDOUT,
            stdout=output,
        )
    except OSError:
        return ""
    return done.stdout or ""


def _named(name: str) -> pwd.struct_passwd | None:
    try:
        return pwd.getpwnam(name)
    except KeyError:
        return None


def _numbered(uid: int) -> pwd.struct_passwd | None:
    try:
        return pwd.getpwuid(uid)
    except KeyError:
        return None


def _may_override() -> bool:
    try:
        status = Path("/proc/self/status").read_text("ascii", "replace")
    except OSError:
        return False
    effective = next((line.split()[1] for line in status.splitlines() if line.startswith("CapEff:")), "0")
    return bool(int(effective, 16) >> _CAP_DAC_OVERRIDE & 1)
