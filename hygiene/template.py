"""A process that has imported what its likes need, and from which they are forked: a start without its imports.

It holds no connection, no secret and one thread. What it forks is a child of whoever asked, who must be a subreaper: the
forked process's first parent ends at once. So the template may die at any time; nobody waits through it, and nothing
stands below it. Whoever asked then starts processes the longer way. It ends when its socket does, or with its parent.
"""

import contextlib
import ctypes
import gc
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import IO, NoReturn

from stoker.hygiene.ending import kill_tree_now, owned
from stoker.hygiene.process import Child, Reaped, become_subreaper, open_pidfd, spawn

UNKNOWN = "00000000-0000-0000-0000-000000000000"
"""What stands in the template's environment for each tag: what it forks writes its own over it, which is as long."""

_ANSWER_SECONDS = 5.0
_MESSAGE_BYTES = 4096
_DESCRIPTORS = 1024


class TemplateError(Exception):
    """The template cannot be asked any more, or never could: start the process the longer way."""


@dataclass(slots=True, eq=False)
class Forked(Reaped):
    """A process that was forked from a template, with pipes to its standard input and from its standard error."""

    _pid: int
    stdin: IO[bytes]
    stderr: IO[bytes]
    _pidfd: int
    _returncode: int | None = None

    @property
    def pid(self) -> int:
        """Its pid; still its own as long as it was not reaped."""
        return self._pid

    @property
    def returncode(self) -> int | None:
        """Exit status, or minus the signal; None while it lives or was not looked at."""
        return self._returncode

    def _record(self, code: int | None) -> None:
        self._returncode = code


@dataclass(slots=True)
class Template:
    """A template that was started, as its owner sees it."""

    _child: Child
    _socket: socket.socket

    @staticmethod
    def start(argv: Sequence[str], env: Mapping[str, str], tags: Sequence[str]) -> "Template":
        """Start ``argv`` with the number of its socket behind it; raises TemplateError where none can be used."""
        if not become_subreaper():
            raise TemplateError("what it forks would not be ours")
        here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with there:
            try:
                child = spawn(
                    [*argv, str(there.fileno())],
                    env={**env, **dict.fromkeys(tags, UNKNOWN)},
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    pass_fds=[there.fileno()],
                    die_with_parent=True,
                )
            except OSError as error:
                here.close()
                raise TemplateError(str(error)) from None
        here.settimeout(_ANSWER_SECONDS)
        return Template(child, here)

    def fork(self, tags: Mapping[str, str]) -> Forked:
        """One more process, with pipes for standard input and error; raises TemplateError. Waits till the template can."""
        stdin, feed = os.pipe()
        hear, stderr = os.pipe()
        try:
            pid = self._ask(json.dumps(dict(tags)).encode(), [stdin, stderr])
        except BaseException:
            os.close(feed)
            os.close(hear)
            raise
        finally:
            os.close(stdin)
            os.close(stderr)
        child = Forked(pid, open(feed, "wb", 0), open(hear, "rb", 0), open_pidfd(pid))  # noqa: SIM115, PTH123
        owned[pid] = child
        return child

    def _ask(self, message: bytes, descriptors: list[int]) -> int:
        try:
            socket.send_fds(self._socket, [message], descriptors)
            answer = self._socket.recv(_MESSAGE_BYTES)
        except OSError as error:
            raise TemplateError(str(error)) from None
        if not answer.isdigit():
            raise TemplateError("it could not fork" if answer else "it is gone")
        return int(answer)

    def close(self) -> None:
        """End it, and reap it. What it forked stays."""
        self._socket.close()
        kill_tree_now(self._child)
        self._child.close()


def serve(descriptor: int, work: Callable[[], None]) -> None:
    """Fork, for each message on the socket, a process that does ``work``; until the socket ends. Called by the template."""
    gc.freeze()  # so that nobody writes to what all share
    gc.enable()
    with socket.socket(fileno=descriptor) as asked:
        while True:
            message, descriptors, *_ = socket.recv_fds(asked, _MESSAGE_BYTES, 2)
            if not message:
                return
            asked.send(_forked(message, descriptors, work))
            for each in descriptors:
                os.close(each)


def _forked(message: bytes, descriptors: list[int], work: Callable[[], None]) -> bytes:
    """The pid of a new process whose parent has ended; no digits when there is none to be had."""
    tags = json.loads(message)
    hear, tell = os.pipe()
    try:
        between = os.fork()
        if between == 0:
            _end_between(tags, descriptors, tell, work)
        os.waitpid(between, 0)
    except OSError:
        return b"none"
    finally:
        os.close(tell)
        answer = os.read(hear, _MESSAGE_BYTES)
        os.close(hear)
    return answer or b"none"


def _end_between(tags: dict[str, str], descriptors: list[int], tell: int, work: Callable[[], None]) -> NoReturn:
    """The process between the template and the new one: it ends, and the new one goes to the subreaper."""
    try:
        if os.fork() == 0:
            _become(tags, descriptors, tell, work)
    finally:
        os._exit(0)


def _become(tags: dict[str, str], descriptors: list[int], tell: int, work: Callable[[], None]) -> NoReturn:
    """In the new process: a session, tags and streams of its own, nothing else; then the work, and the end.

    It is told of only when nobody can take it for a part of the template any more, which may be killed from then on.
    """
    status = 1
    try:
        os.setsid()
        _tag(tags)
        os.write(tell, str(os.getpid()).encode())
        for number, descriptor in zip((0, 2), descriptors, strict=True):
            os.dup2(descriptor, number)
        os.closerange(3, _DESCRIPTORS)
        work()
        status = 0
    except SystemExit as error:
        status = error.code if isinstance(error.code, int) else 0 if error.code is None else 1
        if isinstance(error.code, str):
            sys.stderr.write(error.code + "\n")
    except BaseException:  # noqa: BLE001 - what an interpreter does with what nobody caught
        sys.excepthook(*sys.exc_info())
    finally:
        with contextlib.suppress(OSError):
            sys.stderr.flush()
        os._exit(status)


def _tag(tags: dict[str, str]) -> None:
    """Write the tags where /proc shows them: over what stood there when the template was started, which is as long."""
    getenv = ctypes.CDLL(None).getenv
    getenv.argtypes, getenv.restype = [ctypes.c_char_p], ctypes.c_void_p
    for name, value in tags.items():
        if len(value.encode()) != len(os.environ[name].encode()):
            raise ValueError(f"{name} has another length than what stands in its place")
        ctypes.memmove(getenv(name.encode()), value.encode(), len(value.encode()))
        os.environ[name] = value
    with open("/proc/self/environ", "rb") as file:  # noqa: PTH123
        shown = file.read().split(b"\0")
    if not {f"{name}={value}".encode() for name, value in tags.items()} <= set(shown):
        raise RuntimeError("this process could not be tagged: nobody would find it")
