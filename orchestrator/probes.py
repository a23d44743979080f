"""What ``stoker run`` answers over HTTP: GET /healthz and GET /readyz, and nothing else.

A request is read up to 4 KiB and 5 s, of sixteen at a time; whoever is slower or longer is cut off. Nothing of a request is
looked at but its method and path. Answers name processes, modes and fires, never a URL or what a handler's error said.
"""

import contextlib
import json
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import anyio
from anyio.abc import SocketAttribute, SocketStream
from anyio.to_thread import run_sync

from stoker.orchestrator.beats import Pulse
from stoker.orchestrator.logs import log
from stoker.orchestrator.readiness import Readiness
from stoker.sql.database import DatabaseUnreachableError, StatementError

_REQUEST_BYTES = 4096
_REQUEST_SECONDS = 5.0
_AT_A_TIME = 16
_AGAIN_SECONDS = 5.0
_FRESH_SECONDS = 1.0
_PATIENCE_SECONDS = 4.0
_WORDS = {200: "OK", 400: "Bad Request", 404: "Not Found", 405: "Method Not Allowed", 503: "Service Unavailable"}

Answer = tuple[int, dict[str, Any]]


@dataclass(slots=True)
class Probes:
    """Answers at ``address`` ("host:port"); ``look`` asks the database whether all is ready."""

    address: str
    pulse: Pulse
    look: Callable[[], Readiness]
    _turns: anyio.Semaphore = field(default_factory=lambda: anyio.Semaphore(_AT_A_TIME))
    _asking: anyio.CapacityLimiter = field(default_factory=lambda: anyio.CapacityLimiter(1))
    _last: Answer = (503, {})
    _asked_at: float = -math.inf

    async def serve(self) -> None:
        """Answer until it is cancelled; an address that is not to be had is tried again, and nobody else notices."""
        host, _, port = self.address.rpartition(":")
        while True:
            try:
                listener = await anyio.create_tcp_listener(local_host=host.strip("[]"), local_port=int(port))
            except OSError as error:
                log("probes are not answered", "error", address=self.address, reason=str(error))
                await anyio.sleep(_AGAIN_SECONDS)
            else:
                log("probes", address=f"{host}:{listener.extra(SocketAttribute.local_port)}")  # noqa: S610 - no query
                await listener.serve(self._attend)

    async def _attend(self, stream: SocketStream) -> None:
        """One request, one answer; whoever takes his time, or is one too many, is cut off."""
        async with stream:
            try:
                self._turns.acquire_nowait()
            except anyio.WouldBlock:
                return
            try:
                with anyio.move_on_after(_REQUEST_SECONDS), contextlib.suppress(anyio.BrokenResourceError, anyio.EndOfStream):
                    status, facts = await self._answer(await _read(stream))
                    await stream.send(_written(status, facts))
                    await stream.send_eof()
            finally:
                self._turns.release()

    async def _answer(self, head: bytes) -> Answer:
        method, _, rest = head.partition(b" ")
        path, _, version = rest.partition(b" ")
        if not version.startswith(b"HTTP/1"):
            return 400, {"error": "this is no HTTP/1 request of at most 4 KiB"}
        if method != b"GET":
            return 405, {"error": "only GET is answered"}
        match path.partition(b"?")[0]:
            case b"/healthz":
                return self._health()
            case b"/readyz":
                return await self._readiness()
            case _:
                return 404, {"error": "there are /healthz and /readyz"}

    def _health(self) -> Answer:
        late = {name: round(seconds, 1) for name, seconds in self.pulse.late().items()}
        return (503 if late else 200), {"healthy": not late, "loops": self.pulse.names, "late": late}

    async def _readiness(self) -> Answer:
        """The database is asked once a second at the most, by one at a time, and not waited for for long."""
        if anyio.current_time() - self._asked_at < _FRESH_SECONDS:
            return self._last
        with anyio.move_on_after(_PATIENCE_SECONDS):
            self._last = await run_sync(self._look, abandon_on_cancel=True, limiter=self._asking)
            self._asked_at = anyio.current_time()
            return self._last
        return 503, _unready("the database does not answer")

    def _look(self) -> Answer:
        try:
            seen = self.look()
        except DatabaseUnreachableError:
            return 503, _unready("the database cannot be reached")
        except StatementError as error:
            return 503, _unready(f"the database refused to be asked ({error.sqlstate})")
        return (200 if seen.is_ready else 503), seen.facts()


def _unready(why: str) -> dict[str, Any]:
    return {"ready": False, "missing": [why], "remarks": [], "processes": []}


async def _read(stream: SocketStream) -> bytes:
    """The head of a request; what is longer, or ends before its end, is cut short and makes no sense."""
    head = b""
    while b"\r\n\r\n" not in head:
        if len(head) >= _REQUEST_BYTES:
            return b""
        head += await stream.receive(_REQUEST_BYTES - len(head))
    return head.partition(b"\r\n")[0]


def _written(status: int, facts: dict[str, Any]) -> bytes:
    body = json.dumps(facts, ensure_ascii=True).encode() + b"\n"
    head = (
        f"HTTP/1.1 {status} {_WORDS[status]}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body
