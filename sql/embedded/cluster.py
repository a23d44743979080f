"""The life of the embedded server: found when it runs, started when it does not, stopped when it is surely ours."""

import os
import select
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from stoker.sql.embedded.account import choose_account
from stoker.sql.embedded.binaries import find_binaries
from stoker.sql.embedded.failure import EmbeddedServerError, ServerStartError, ServerStopError
from stoker.sql.embedded.identity import ask, is_claimed_server, is_server, read_claim
from stoker.sql.embedded.launch import Options, give, launch, make_data
from stoker.sql.embedded.place import POLL_SECONDS, SOCKET_NAME, Place, socket_url


def ensure(home: Path, options: Options | None = None) -> str:
    """Return the URL of the server in ``home``, which answers; start it, and make it first, if need be.

    Raises EmbeddedServerError, with the last lines of the server's log where they help.
    """
    options = options or Options()
    place = Place(home.absolute().resolve())
    found = _find(place)
    if found:
        return found
    try:
        place.prepare()
        with place.held(options.patience_seconds) as lock:
            return _wait_for_predecessor(place, options) or _start(place, options, lock)
    except OSError as error:
        raise ServerStartError(f"the server in {place.home} cannot be started: {error}") from error


def url(home: Path) -> str | None:
    """Return the URL of the server in ``home`` if it runs and answers; start nothing."""
    return _find(Place(home.absolute().resolve()))


def stop(home: Path, *, patience_seconds: float = 30.0) -> bool:
    """End the server in ``home`` and its sessions; False when none ran.

    Only a process proven to be this folder's server is signalled. Raises ServerStopError when it did not end in time.
    """
    place = Place(home.absolute().resolve())
    if place.major() is None:
        return False
    with place.held(patience_seconds):
        pid = _server_pid(place)
        if pid is None:
            if not place.all_gone():
                raise ServerStopError(f"a server in {place.home} runs, but cannot be told from a stranger here.")
            return False
        _interrupt(place, pid, patience_seconds)
        _remove_socket(place)
    return True


def _find(place: Place) -> str | None:
    """Return the URL of the server that answers and whose data is this folder's, not a copy's or a deleted one's."""
    try:
        folder = _live_socket_folder(place)
        if not place.is_private(folder):
            return None
    except FileNotFoundError:
        return None
    except PermissionError as error:
        raise EmbeddedServerError(f"{place.home} belongs to somebody else: {error}") from None
    answer = ask(folder)
    if answer is None or not answer.alive:
        return None
    ours = is_server(place, answer.pid) if answer.pid else None
    return socket_url(folder) if ours or (ours is None and folder == place.data) else None


def _live_socket_folder(place: Place) -> Path:
    """Where the server that runs listens; it may have been started with another temporary folder than ours."""
    claim = read_claim(place)
    if claim and is_claimed_server(place, claim):
        return claim.socket_folder
    return place.socket_folder()


def _wait_for_predecessor(place: Place, options: Options) -> str | None:
    """Its URL when it comes up; None when no process of it is left."""
    deadline = time.monotonic() + options.patience_seconds
    while True:
        found = _find(place)
        if found or (place.all_gone() and _server_pid(place) is None):
            return found
        if time.monotonic() > deadline:
            raise ServerStartError(
                f"a server of {place.data} runs but has not answered for {options.patience_seconds:g} s; it may be"
                f" recovering. Try again, or stop it first (stoker db stop).{place.last_words()}"
            )
        time.sleep(POLL_SECONDS)


def _start(place: Place, options: Options, lock: int) -> str:
    binaries = find_binaries(place.major() or options.major)
    account = choose_account(place, binaries.postgres, user_namespace=options.user_namespace)
    place.shorten_log()
    if place.major() is None:
        make_data(place, binaries, account, options, lock)
    elif account.owner and place.data_owner() != account.owner.pw_uid:
        give(place.data, account)
    (place.data / "postmaster.pid").unlink(missing_ok=True)
    _remove_socket(place)
    launch(place, binaries, account, options)
    return _wait_for_answer(place, options.patience_seconds)


def _wait_for_answer(place: Place, patience_seconds: float) -> str:
    deadline = time.monotonic() + patience_seconds
    while True:
        found = _find(place)
        if found:
            return found
        if place.all_gone():
            raise ServerStartError(f"the server in {place.home} ended while it started.{place.last_words()}")
        if time.monotonic() > deadline:
            raise ServerStartError(
                f"the server in {place.home} did not answer within {patience_seconds:g} s and goes on starting; try"
                f" again.{place.last_words()}"
            )
        time.sleep(POLL_SECONDS)


def _server_pid(place: Place) -> int | None:
    """Return the pid of this folder's server, proven; None when there is none or there is no proof."""
    with suppress(FileNotFoundError):
        folder = _live_socket_folder(place)
        answer = ask(folder) if place.is_private(folder) else None
        if answer and answer.pid and is_server(place, answer.pid):
            return answer.pid
    claim = read_claim(place)
    return claim.pid if claim and is_claimed_server(place, claim) else None


def _interrupt(place: Place, pid: int, patience_seconds: float) -> None:
    """Send SIGINT, PostgreSQL's fast shutdown, and wait until no process of the server is left."""
    deadline = time.monotonic() + patience_seconds
    handle = _open_pid(pid)
    try:
        # Asked again with the handle open: from here the pid cannot become a stranger's.
        if not is_server(place, pid):
            return
        if handle is None:
            os.kill(pid, signal.SIGINT)
        else:
            signal.pidfd_send_signal(handle, signal.SIGINT)
            poll = select.poll()
            poll.register(handle, select.POLLIN)
            poll.poll(patience_seconds * 1000)
    except ProcessLookupError:
        return
    finally:
        if handle is not None:
            os.close(handle)
    if not _until(lambda: place.all_gone() and not is_server(place, pid), deadline):
        raise ServerStopError(
            f"the server in {place.home} (pid {pid}) was told to stop and has not ended after {patience_seconds:g} s."
            f"{place.last_words()}"
        )


def _open_pid(pid: int) -> int | None:
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None


def _until(condition: Callable[[], bool], deadline: float) -> bool:
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_SECONDS)
    return True


def _remove_socket(place: Place) -> None:
    """Remove what a dead server left; called only when no process of one lives."""
    folder = place.socket_folder()
    if not place.is_private(folder):
        return
    for name in (SOCKET_NAME, f"{SOCKET_NAME}.lock"):
        (folder / name).unlink(missing_ok=True)
    if folder != place.data:
        folder.rmdir()
