"""Receivers on loopback: HTTP that answers as it is told, SMTP that keeps what it gets."""

import gzip
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from email import message_from_bytes
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

DROP, HANG, TRICKLE, FLOOD, BOMB, CONTINUE = "drop", "hang", "trickle", "flood", "bomb", "continue"


@dataclass
class Told:
    """One request as it came."""

    path: str
    headers: dict[str, str]
    body: bytes
    answer: int | str = 200

    @property
    def delivery(self) -> str:
        return self.headers["Stoker-Delivery"]


@dataclass
class Sink:
    """``answers`` are used up one by one, then ``usual`` holds: a status, DROP after reading, HANG, TRICKLE, or what is
    said without end: FLOOD, a body; BOMB, one of packed zeros; CONTINUE, "go on"."""

    usual: int | str = 200
    answers: list[int | str] = field(default_factory=list)
    headers: dict[str, str] = field(default_factory=dict)
    told: list[Told] = field(default_factory=list)
    flooded: int = 0
    release: threading.Event = field(default_factory=threading.Event)
    port: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"

    @property
    def deliveries(self) -> list[str]:
        return [one.delivery for one in self.told]


@contextmanager
def http_sink(tls: Any = None) -> Iterator[Sink]:
    """A sink that listens; ``tls``: an SSL context."""
    sink = Sink()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            answer = sink.answers.pop(0) if sink.answers else sink.usual
            sink.told.append(Told(self.path, dict(self.headers), body, answer))
            if answer == HANG:
                sink.release.wait()
            if answer == TRICKLE:
                while not sink.release.wait(0.05):
                    self.wfile.write(b"H")
            if answer in (FLOOD, BOMB, CONTINUE):
                self.flood(str(answer))
            if isinstance(answer, str):
                self.close_connection = True
                self.connection.shutdown(socket.SHUT_RDWR)
                return
            self.send_response(answer)
            for name, value in sink.headers.items():
                self.send_header(name, value)
            self.end_headers()

        do_GET = do_POST  # noqa: N815 - as the server calls it

        def flood(self, kind: str) -> None:
            """Write until nobody takes it any more."""
            packed = "Content-Encoding: gzip\r\n" if kind == BOMB else ""
            if kind != CONTINUE:
                self.wfile.write(f"HTTP/1.1 200 OK\r\n{packed}Content-Length: {10 << 30}\r\n\r\n".encode())
            part = b"HTTP/1.1 100 Continue\r\n\r\n" if kind == CONTINUE else gzip.compress(b"\0" * (1 << 22))
            with suppress(OSError):
                while True:
                    sink.flooded += self.connection.send(part)

        def log_message(self, *_: Any) -> None:
            """Nothing."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: Any) -> None:
            """A client that went away is what some tests are about."""

    server = Server(("127.0.0.1", 0), Handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    sink.port = server.server_port
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield sink
    finally:
        sink.release.set()
        server.shutdown()
        server.server_close()


@dataclass
class Mailbox:
    """What an SMTP server got; ``answers`` are used up one by one for DATA, then "250 OK" holds; DROP: keep it, then drop."""

    port: int = 0
    mails: list[Message] = field(default_factory=list)
    answers: list[str] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    said: list[str] = field(default_factory=list)

    @property
    def ids(self) -> list[str]:
        return [str(mail["Message-ID"]) for mail in self.mails]


@contextmanager
def smtp_sink(tls: Any = None, *, first_byte_tls: bool = False, auth: dict[str, str] | None = None) -> Iterator[Mailbox]:
    """A real SMTP server. ``tls``: an SSL context, offered as STARTTLS or used from the first byte."""
    from aiosmtpd.controller import Controller
    from aiosmtpd.smtp import AuthResult

    box = Mailbox()

    class Handler:
        async def handle_RCPT(self, server: Any, session: Any, envelope: Any, address: str, options: Any) -> str:  # noqa: N802
            if address in box.refused:
                return box.refused[address]
            envelope.rcpt_tos.append(address)
            return "250 OK"

        async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:  # noqa: N802
            answer = box.answers.pop(0) if box.answers else "250 OK"
            if answer == DROP or answer.startswith("250"):
                box.mails.append(message_from_bytes(envelope.content))
            if answer == DROP:
                server.transport.abort()
            return answer

    def check(server: Any, session: Any, envelope: Any, mechanism: str, data: Any) -> Any:
        given = (data.login.decode(), data.password.decode())
        box.said.append(mechanism)
        return AuthResult(success=auth is not None and given in auth.items(), handled=False)

    facts: dict[str, Any] = {"authenticator": check, "auth_require_tls": not first_byte_tls} if auth else {}
    if tls is not None and not first_byte_tls:
        facts |= {"tls_context": tls, "require_starttls": True}
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        box.port = probe.getsockname()[1]
    context = tls if first_byte_tls else None
    controller = Controller(Handler(), hostname="127.0.0.1", port=box.port, ssl_context=context, **facts)
    controller.start()
    try:
        yield box
    finally:
        controller.stop()
