"""T12: what somebody else names is not reached if it is inside, however it is written, and whatever the name means later."""

import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from tests.sinks import Sink, http_sink

from stoker.orchestrator.channels import outside
from stoker.orchestrator.channels.outside import ForbiddenAddressError, addresses_of, is_public, place_of
from stoker.orchestrator.channels.post import post
from stoker.orchestrator.message import NotSentError


@pytest.fixture
def sink() -> Iterator[Sink]:
    with http_sink() as made:
        yield made


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "127.9.9.9", "0.0.0.0", "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "169.254.169.254",
        "100.64.0.1", "100.127.255.255", "192.0.0.1", "192.0.2.1", "198.18.0.1", "198.51.100.1", "203.0.113.1", "224.0.0.1",
        "239.1.1.1", "240.0.0.1", "255.255.255.255", "192.88.99.1",
        "::", "::1", "::127.0.0.1", "::ffff:127.0.0.1", "::ffff:8.8.8.8", "::ffff:a9fe:a9fe", "64:ff9b::7f00:1",
        "64:ff9b::808:808", "64:ff9b:1::1", "100::1", "2001::1", "2001:db8::1", "2002:7f00:1::", "2002:808:808::1",
        "3fff::1", "5f00::1", "fc00::1", "fd00:ec2::254", "fe80::1", "fe80::1%eth0", "fec0::1", "ff02::1", "4000::1", "x",
    ],
)  # fmt: skip
def test_an_address_inside_is_not_public(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize("address", ["8.8.8.8", "1.1.1.1", "172.32.0.1", "100.128.0.1", "2606:4700:4700::1111", "2a00:1450::1"])
def test_an_address_of_the_public_network_is(address: str) -> None:
    assert is_public(address)


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd", "gopher://example.org/", "ftp://example.org/", "//example.org/", "example.org", "", "http://",
        "http:///x", "https://user@example.org/", "https://user:pass@example.org/", "https://@example.org/",
        "http://2130706433/", "http://0x7f000001/", "http://0x7f.1/", "http://017700000001/", "http://127.1/",
        "http://0177.0.0.1/", "http://127.0.0.1./", "http://0/", "http://1.2.3/", "http://[::1%25eth0]/", "http://[::1/",
        "http://[v1.x]/", "http://exam ple.org/", "http://example.org\\@127.0.0.1/", "http://example.org/\r\nX: y",
        "http://example.org/\x00", "http://exämple.org/", "http://①②⑦.0.0.1/", "http://example.org:0/", "http://example.org:x/",
        "http://example.org:99999/", "http://-a.org/", "http://a..org/", "https://example.org/" + "x" * 3000,
    ],
)  # fmt: skip
def test_a_url_that_is_not_plain_is_refused_when_it_is_read(url: str) -> None:
    with pytest.raises(ForbiddenAddressError) as caught:
        place_of(url)
    assert "example" not in str(caught.value)


def test_a_plain_url_is_taken_apart() -> None:
    place = place_of("https://Example.org:8443/a/b?c=d#e")
    assert (place.scheme, place.host, place.port, place.path) == ("https", "example.org", 8443, "/a/b?c=d")
    assert place.header == "example.org:8443"
    assert place_of("http://[2606:4700::1111]/").header == "[2606:4700::1111]"
    assert place_of("https://1.1.1.1").path == "/"


def name_means(monkeypatch: pytest.MonkeyPatch, *answers: list[str]) -> list[str]:
    """A name whose address is another at every question; the questions."""
    asked: list[str] = []
    left = list(answers)

    really = socket.getaddrinfo

    def resolve(host: str, port: int, *facts: Any, **more: Any) -> list[Any]:
        if host != "example.org":
            return really(host, port, *facts, **more)
        asked.append(host)
        found = left.pop(0) if len(left) > 1 else left[0]
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in found]

    monkeypatch.setattr(outside.socket, "getaddrinfo", resolve)
    return asked


@pytest.mark.parametrize("found", [["127.0.0.1"], ["8.8.8.8", "169.254.169.254"], ["10.0.0.1", "8.8.8.8"]])
def test_a_name_that_leads_inside_is_refused_even_if_it_leads_outside_too(
    monkeypatch: pytest.MonkeyPatch, found: list[str]
) -> None:
    name_means(monkeypatch, found)
    with pytest.raises(ForbiddenAddressError, match="not public"):
        addresses_of(place_of("https://example.org/"), public_only=True, seconds=5)
    assert addresses_of(place_of("https://example.org/"), public_only=False, seconds=5) == found


def test_the_connection_goes_to_the_address_that_was_checked(monkeypatch: pytest.MonkeyPatch, sink: Sink) -> None:
    """A name that means something else a moment later (rebinding) leads nowhere else: it is asked for once."""
    monkeypatch.setattr(outside, "is_public", lambda address: address == "127.0.0.1")
    asked = name_means(monkeypatch, ["127.0.0.1"], ["127.0.0.2"])
    post(f"http://example.org:{sink.port}/x?y", b"{}", {"A": "b"}, seconds=5, public_only=True)
    assert asked == ["example.org"]
    (told,) = sink.told
    assert (told.path, told.headers["Host"], told.body) == ("/x?y", f"example.org:{sink.port}", b"{}")


@pytest.mark.parametrize("host", ["localhost", "localhost.", "LOCALHOST", "ip6-localhost"])
def test_this_host_by_its_own_names_is_not_spoken_to(host: str) -> None:
    """Whatever the real resolver says of them; a name that is not known is as good."""
    with pytest.raises(NotSentError, match=r"not public|not known"):
        post(f"http://{host}:1/", b"{}", {}, seconds=5, public_only=True)


@pytest.mark.parametrize(
    "url",
    [
        "http://[::ffff:127.0.0.1]:1/",
        "http://[64:ff9b::a9fe:a9fe]:1/",
        "http://[2002:a00:1::]:1/",
        "http://0.0.0.0:1/",
        "http://169.254.169.254/latest/",
        "http://[fd00:ec2::254]/",
    ],
)
def test_an_address_inside_that_is_plainly_written_is_refused_for_good(url: str) -> None:
    with pytest.raises(NotSentError, match="not public") as caught:
        post(url, b"{}", {}, seconds=5, public_only=True)
    assert caught.value.permanent


def test_a_name_server_that_does_not_answer_costs_no_more_than_the_time_of_the_try(monkeypatch: pytest.MonkeyPatch) -> None:
    """Asking for an address has no time limit of its own."""
    answer = threading.Event()
    monkeypatch.setattr(outside.socket, "getaddrinfo", lambda *_, **__: answer.wait(30) and [])
    began = time.monotonic()
    with pytest.raises(NotSentError, match="no answer in time to what its address is") as caught:
        post("https://example.org/", b"{}", {}, seconds=0.5, public_only=True)
    answer.set()
    assert (caught.value.permanent, caught.value.in_doubt) == (False, False)
    assert time.monotonic() - began < 5


def test_nothing_is_sent_inside_for_a_stranger_and_everything_for_the_owner(sink: Sink) -> None:
    with pytest.raises(NotSentError, match="not public") as caught:
        post(sink.url, b"{}", {}, seconds=5, public_only=True)
    assert caught.value.permanent
    assert sink.told == []
    post(sink.url, b"{}", {}, seconds=5, public_only=False)
    assert len(sink.told) == 1


def test_a_redirect_is_not_followed(sink: Sink) -> None:
    sink.usual, sink.headers = 302, {"Location": f"{sink.url}/inside"}
    with pytest.raises(NotSentError, match="redirects are not followed"):
        post(sink.url, b"{}", {}, seconds=5, public_only=False)
    assert len(sink.told) == 1


def test_a_proxy_of_the_environment_is_not_asked(monkeypatch: pytest.MonkeyPatch, sink: Sink) -> None:
    """It would resolve the name again, somewhere else."""
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    post(sink.url, b"{}", {}, seconds=5, public_only=False)
    assert len(sink.told) == 1
