"""Workers as processes of this machine: their orders go in on standard input, their log lines come out on standard error."""

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import anyio

from stoker.hygiene.process import Child, become_subreaper, describe_exit, end_strays, end_tree, spawn
from stoker.hygiene.template import Forked, Template, TemplateError
from stoker.worker.orders import Orders

_CHUNK = 1 << 16
_RELAY_LIMIT = 1 << 18
_SAID_LIMIT = 2000
_SAID_LINES = 60
KEEPER_ENVIRONMENT = ("PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", "USER", "LOGNAME", "SSL_CERT_FILE")
_TAGS = ("STOKER_WORKER", "STOKER_INSTALLATION")
_PYTHON = (sys.executable, "-P", "-m")


@dataclass(slots=True)
class LocalWorker:
    """One keeper that was started. ``returncode`` is None while it lives."""

    orders: Orders
    child: Child | Forked
    returncode: int | None = None

    @property
    def status(self) -> str:
        """How it ended, in words."""
        return describe_exit(self.returncode)

    def terminate(self) -> None:
        """Ask it to stop: once, to claim no more; twice, to give back what it has not started."""
        if self.returncode is None:
            self.child.terminate()

    async def end(self, grace_seconds: float) -> None:
        """End it and the whole tree under it."""
        await end_tree(self.child, grace_seconds=grace_seconds)


class LocalLauncher:
    """Starts keepers as children, forked from a template where that can be, which takes a tenth of the time.

    Where there is a processor to spare the template is started at once, and imports while the orchestrator decides; else
    with the first worker. ``close`` ends it. ``log`` gets each of the keepers' log lines as (event, level, facts).
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        self.log: Callable[[str, str, dict[str, Any]], None] = lambda *_: None
        self._environ = {name: environ[name] for name in KEEPER_ENVIRONMENT if name in environ}
        self._template: Template | None = None
        self._has_template_to_try = True
        become_subreaper()
        if (os.cpu_count() or 1) > 1:
            self._try_template()

    def start(self, orders: Orders) -> LocalWorker:
        """Start one worker; raises OSError when the machine has no process to give."""
        tags = dict(zip(_TAGS, (orders.worker, orders.installation), strict=True))
        child = self._forked(tags) or spawn(
            [*_PYTHON, "stoker.worker.keeper"],
            env={**self._environ, **tags},
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            die_with_parent=False,
        )
        with contextlib.suppress(BrokenPipeError):
            os.write(_stdin(child), (orders.to_json() + "\n").encode())
        return LocalWorker(orders, child)

    def close(self) -> None:
        """End the template; workers that are started from now on import for themselves."""
        template, self._template = self._template, None
        if template is not None:
            template.close()

    def _try_template(self) -> None:
        self._has_template_to_try = False
        with contextlib.suppress(TemplateError):
            self._template = Template.start([*_PYTHON, "stoker.worker.template"], self._environ, _TAGS)

    def _forked(self, tags: Mapping[str, str]) -> Forked | None:
        if self._has_template_to_try:
            self._try_template()
        try:
            return None if self._template is None else self._template.fork(tags)
        except TemplateError as error:
            self.log("template lost", "debug", {"reason": str(error)})
            self.close()
            return None

    async def attend(self, worker: LocalWorker) -> None:
        """Relay a worker's log lines until it is gone and nothing is left below it."""
        async with anyio.create_task_group() as group:
            group.start_soon(self._relay, worker)
            worker.returncode = await worker.child.wait()
            group.cancel_scope.cancel()
        for stream in (worker.child.stdin, worker.child.stderr):
            if stream is not None:
                stream.close()

    def end_strays(self, keep: list[LocalWorker]) -> int:
        """Kill whatever descends from this process and belongs to none of ``keep``; how many that were."""
        return end_strays([worker.child.pid for worker in keep if worker.returncode is None])

    async def _relay(self, worker: LocalWorker) -> None:
        stream = worker.child.stderr
        if stream is None:
            return
        os.set_blocking(stream.fileno(), False)
        rest, words = b"", list[str]()
        try:
            while True:
                await anyio.wait_readable(stream)
                data = _read(stream.fileno())
                if not data:
                    return
                *lines, rest = (rest + data)[-_RELAY_LIMIT:].split(b"\n")
                self._relay_lines(lines, words)
        finally:
            while data := _read(stream.fileno()):
                rest = (rest + data)[-_RELAY_LIMIT:]
            self._relay_lines(rest.split(b"\n"), words)
            if text := "\n".join(words).strip():
                self.log("worker said", "error", {"worker": worker.orders.worker, "text": text[-_SAID_LIMIT:]})

    def _relay_lines(self, lines: list[bytes], words: list[str]) -> None:
        """Log lines are logged; whatever else a keeper says, such as a traceback, is kept for one line at its end."""
        for line in lines:
            try:
                facts = json.loads(line)
                self.log(facts.pop("event"), facts.pop("level"), facts)
            except (ValueError, KeyError, AttributeError):
                words.append(line.decode("utf-8", "replace"))
                del words[:-_SAID_LINES]


def _stdin(child: Child | Forked) -> int:
    if child.stdin is None:
        raise RuntimeError("the keeper was started without standard input")
    return child.stdin.fileno()


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, _CHUNK)
    except BlockingIOError:
        return b""
