"""Which addresses may be spoken to on behalf of somebody who does not own this configuration.

Whoever may put a URL into the queue must not reach through stoker what only its host can reach: the host itself, its
network, the metadata of a cloud. So a name is resolved once, every address it has must be public, and the connection goes to
an address that was checked, whatever the name means a moment later.
"""

import errno
import ipaddress
import re
import socket
import threading
from dataclasses import dataclass
from urllib.parse import urlsplit

_PORTS = {"http": 80, "https": 443}
_HOST = re.compile(r"(?=.{1,253}\.?\Z)(?!-)[A-Za-z0-9_-]{1,63}(?:\.[A-Za-z0-9_-]{1,63})*\.?")
_LOOKS_LIKE_A_NUMBER = re.compile(r"(?:0[xX][0-9a-fA-F]*|[0-9]+)\.?")
_LONGEST_URL = 2048
# Of IPv6 only what is handed out to networks, without what carries an IPv4 address or is set aside.
_GLOBAL_6 = ipaddress.IPv6Network("2000::/3")
_ASIDE_6 = [
    ipaddress.IPv6Network(one)
    for one in ("2001::/23", "2001:db8::/32", "2002::/16", "3ffe::/16", "3fff::/20", "2620:4f:8000::/48")
]
_ASIDE_4 = [
    ipaddress.IPv4Network(one)
    for one in (
        "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24",
        "192.0.2.0/24", "192.31.196.0/24", "192.52.193.0/24", "192.88.99.0/24", "192.168.0.0/16", "192.175.48.0/24",
        "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
    )
]  # fmt: skip


class ForbiddenAddressError(ValueError):
    """A URL that is not spoken to; the text says why, and quotes nothing of it."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a URL leads: scheme, host as a name or an address, port, and what is asked for there."""

    scheme: str
    host: str
    port: int
    path: str

    @property
    def header(self) -> str:
        """The host as its header says it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"


def place_of(url: str) -> Place:
    """Where ``url`` leads. Raises ForbiddenAddressError unless it is plainly one of http or https, without user and password.

    A host that is a number in disguise (decimal, hexadecimal, octal, shortened) is refused.
    """
    if len(url) > _LONGEST_URL or not url.isascii() or any(c <= " " or c in '\\"<>^`{|}\x7f' for c in url):
        raise ForbiddenAddressError("the URL is too long, or has a character that no URL has")
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise ForbiddenAddressError("the URL cannot be read") from None
    if parts.scheme not in _PORTS:
        raise ForbiddenAddressError("the URL is neither https nor http")
    if "@" in parts.netloc:
        raise ForbiddenAddressError("the URL names a user")
    if port == 0:
        raise ForbiddenAddressError("the URL has no port that there is")
    if ("[" in parts.netloc) != (":" in host) or not _is_a_host(host):
        raise ForbiddenAddressError("the URL's host is no name and no plain address")
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Place(parts.scheme, host, port or _PORTS[parts.scheme], path)


def addresses_of(place: Place, *, public_only: bool, seconds: float) -> list[str]:
    """Every address of the host, to connect to just those. Raises OSError when it is not known ``seconds`` from now.

    ``public_only``: raises ForbiddenAddressError if any of them is not public, so that nobody is led inside by a name that
    has both.
    """
    addresses = looked_up(place.host, place.port, seconds)
    if public_only and not all(is_public(address) for address in addresses):
        raise ForbiddenAddressError("the URL's host has an address that is not public")
    return addresses


def looked_up(host: str, port: int, seconds: float) -> list[str]:
    """The addresses of a name. Raises OSError, also when there is no answer in time: asking cannot be told to hurry."""
    found: list[str] = []
    failed: list[Exception] = [TimeoutError(errno.ETIMEDOUT, "no answer in time to what its address is")]

    def ask() -> None:
        try:
            entries = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            found.extend(dict.fromkeys(str(entry[4][0]) for entry in entries))
        except OSError as error:
            failed[0] = error
        except UnicodeError:
            failed[0] = OSError(errno.EINVAL, "it is no name of a host")

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(max(0.0, seconds))
    if not found:
        raise failed[0]
    return list(found)


def is_public(address: str) -> bool:
    """Whether an address is one of the public network, in no disguise."""
    try:
        ip = ipaddress.ip_address(address)
    except ValueError:
        return False
    if isinstance(ip, ipaddress.IPv4Address):
        return ip.is_global and not ip.is_multicast and not any(ip in network for network in _ASIDE_4)
    return ip.scope_id is None and ip in _GLOBAL_6 and ip.is_global and not any(ip in network for network in _ASIDE_6)


def _is_a_host(host: str) -> bool:
    """A name whose last part is no number, or an address as it is written by everybody."""
    if ":" in host:
        try:
            return ipaddress.IPv6Address(host).scope_id is None
        except ValueError:
            return False
    if _LOOKS_LIKE_A_NUMBER.fullmatch(host.rstrip(".").rpartition(".")[2]):
        try:
            return str(ipaddress.IPv4Address(host)) == host
        except ValueError:
            return False
    return _HOST.fullmatch(host) is not None
