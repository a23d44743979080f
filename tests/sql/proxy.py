"""A server seen through a TCP proxy that can lose a request or a reply, as a network does."""

import contextlib
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from psycopg.conninfo import conninfo_to_dict, make_conninfo

REQUEST, REPLY = "request", "reply"
# The last message of every answer: ready for the next query.
_READY = re.compile(rb"Z\x00\x00\x00\x05[ITE]$")


class Proxy:
    """Forwards every connection to ``url``; after ``lose`` it cuts the next that speaks, before or after the server acted."""

    def __init__(self, url: str) -> None:
        self._there = conninfo_to_dict(url)
        self._losing: str | None = None
        self._sockets: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._spawn(self._accept)

    @property
    def url(self) -> str:
        """The server, through the proxy."""
        host, port = self._listener.getsockname()
        return make_conninfo("", **{**self._there, "host": host, "port": port, "sslmode": "disable", "gssencmode": "disable"})

    @property
    def has_lost(self) -> bool:
        """Whether what was to be lost is lost."""
        return self._losing is None

    def lose(self, what: str) -> None:
        """Lose the next ``REQUEST``, so that the server never sees it, or the next whole ``REPLY``, so that it has acted."""
        self._losing = what

    def cut(self) -> None:
        """End every connection, whatever the server does at this moment."""
        for one in self._sockets:
            self._cut(one)

    def close(self) -> None:
        """End every connection and every thread."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()
        for thread in self._threads:
            thread.join()
        for one in self._sockets:
            one.close()

    def _spawn(self, work: object, *arguments: object) -> None:
        thread = threading.Thread(target=work, args=arguments, daemon=True)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.socket(socket.AF_UNIX)
                server.connect(f"{self._there['host']}/.s.PGSQL.{self._there.get('port', 5432)}")
                self._sockets += [client, server]
                self._spawn(self._pump, client, server, REQUEST)
                self._spawn(self._pump, server, client, REPLY)

    def _pump(self, source: socket.socket, drain: socket.socket, what: str) -> None:
        swallowed = b""
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                if self._losing != what:
                    drain.sendall(data)
                    continue
                swallowed += data
                if what == REQUEST or _READY.search(swallowed):
                    self._losing = None
                    break
        self._cut(source)
        self._cut(drain)

    def _cut(self, one: socket.socket) -> None:
        with contextlib.suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)


@contextmanager
def proxied(url: str) -> Iterator[Proxy]:
    """A proxy before the server of ``url``."""
    proxy = Proxy(url)
    try:
        yield proxy
    finally:
        proxy.close()
