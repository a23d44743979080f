"""One POST: to an address that was looked up once, without redirects, ended when its time is over; the answer is not read.

The standard library's client is used, which leaves the connection to us; proxies are not.
"""

import http.client
import socket
import ssl
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager

from stoker.orchestrator.channels.outside import ForbiddenAddressError, Place, addresses_of, place_of
from stoker.orchestrator.message import NotSentError

_AGAIN = (408, 425, 429)
_IN_DOUBT = (502, 504)
_LONGEST_REST_SECONDS = 3600.0


def post(url: str, body: bytes, headers: Mapping[str, str], *, seconds: float, public_only: bool) -> None:
    """POST ``body`` within ``seconds``; raises NotSentError unless the answer is 2xx.

    ``public_only`` is for a URL that does not come from the configuration's owner.
    """
    deadline = time.monotonic() + seconds
    try:
        place = place_of(url)
        addresses = addresses_of(place, public_only=public_only, seconds=seconds)
    except ForbiddenAddressError as error:
        raise NotSentError(str(error), permanent=True) from None
    except OSError as error:
        raise NotSentError(f"the host is not known: {error.strerror}") from None
    connection = _Pinned(place, addresses, deadline)
    with _cut_off(connection, deadline):
        connection.open()
        try:
            connection.request("POST", place.path, body, {**headers, "Host": place.header, "Connection": "close"})
            with closing(connection.getresponse()) as answer:
                status, rest = answer.status, answer.headers.get("Retry-After", "")
        except (OSError, http.client.HTTPException) as error:
            late = f"no answer within {seconds:.1f} s"
            words = late if time.monotonic() >= deadline else f"no answer: {_why(error)}"
            raise NotSentError(words, in_doubt=True) from None
        _judge(status, rest)


class _Pinned(http.client.HTTPConnection):
    """A connection to one of ``addresses``, in the name of the place's host."""

    def __init__(self, place: Place, addresses: list[str], deadline: float) -> None:
        super().__init__(place.host, place.port)
        self._place, self._addresses, self._deadline = place, addresses, deadline

    def open(self) -> None:
        """Connect. Raises NotSentError; nothing was sent then."""
        why = "the host has no address"
        for address in self._addresses:
            try:
                self.sock = socket.create_connection((address, self.port), max(0.001, self._deadline - time.monotonic()))
                if self._place.scheme == "https":
                    self._encrypt()
            except OSError as error:
                self.close()
                why = "it took too long" if time.monotonic() >= self._deadline else _why(error)
            else:
                return
        raise NotSentError(f"cannot connect: {why}")

    def _encrypt(self) -> None:
        context = ssl.create_default_context()
        self.sock = context.wrap_socket(self.sock, server_hostname=self._place.host, do_handshake_on_connect=False)
        self.sock.do_handshake()


@contextmanager
def _cut_off(connection: _Pinned, deadline: float) -> Iterator[None]:
    """End the connection at the deadline, also one whose other side sends a byte now and then."""
    done = threading.Event()

    def cut() -> None:
        while not done.wait(max(0.05, deadline - time.monotonic())):
            if time.monotonic() >= deadline and (sock := connection.sock) is not None:
                try:
                    sock.shutdown(socket.SHUT_RDWR)
                except OSError:
                    """It is gone, or about to be encrypted: then it is tried again."""

    threading.Thread(target=cut, daemon=True).start()
    try:
        yield
    finally:
        done.set()
        connection.close()


def _judge(status: int, rest: str) -> None:
    if 200 <= status < 300:
        return
    if 300 <= status < 400:
        raise NotSentError(f"the answer was {status}; redirects are not followed", permanent=True)
    permanent = 400 <= status < 500 and status not in _AGAIN
    seconds = min(float(rest), _LONGEST_REST_SECONDS) if rest.isascii() and rest.isdigit() and len(rest) < 9 else None
    raise NotSentError(f"the answer was {status}", permanent=permanent, in_doubt=status in _IN_DOUBT, rest=seconds)


def _why(error: BaseException) -> str:
    """What the system says, without what it quotes."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not right: {error.verify_message}"
    if isinstance(error, TimeoutError):
        return "it took too long"
    words = error.strerror if isinstance(error, OSError) else None
    return words or type(error).__name__
