"""Each kind of channel by itself: what it sends, how it fails, how long it may take, and what it never says."""

import json
import os
import socket
import ssl
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from email.header import decode_header, make_header
from pathlib import Path
from typing import Any

import pytest
from tests.end_to_end.project import is_alive
from tests.sinks import BOMB, CONTINUE, FLOOD, Sink, http_sink, smtp_sink
from tests.waiting import wait_until

from stoker.hygiene.signature import SignatureError, verify
from stoker.orchestrator.channels import sender
from stoker.orchestrator.message import Message, NotSentError
from stoker.orchestrator.notify_settings import NotifySettings
from stoker.sql.section import SectionError

ID = "11111111-2222-4333-8444-555555555555"
MESSAGE = Message(ID, "note", "fire-7", "[stoker] Fire 7: 3 done", "# Fire 7\n\nGrüße\n", {"fire": 7}, 1_800_000_000.0)


@pytest.fixture
def sink() -> Iterator[Sink]:
    with http_sink() as made:
        yield made


def send(place: Path, seconds: float = 5.0, message: Message = MESSAGE, **keys: Any) -> str | None:
    settings = NotifySettings.of(keys)
    return sender(settings.kind)(settings, place, message, seconds)


def secret(folder: Path, name: str, text: str) -> str:
    (folder / name).write_text(text + "\n")
    return name


# Settings


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({}, "needs kind"),
        ({"kind": "pigeon"}, "must be one of file, command"),
        ({"kind": "file"}, "kind file needs folder"),
        ({"kind": "file", "folder": "x", "url": "https://example.org"}, "url is no key of kind file, which has folder"),
        ({"kind": "webhook"}, "needs url or url_file, not both"),
        ({"kind": "webhook", "url": "https://a", "url_file": "b"}, "needs url or url_file, not both"),
        ({"kind": "webhook", "url": "ftp://a"}, "url must begin with"),
        ({"kind": "webhook", "url": "https://canary:pw@a/b"}, "url must not name a user"),
        ({"kind": "webhook", "url": "https://a", "old_secret_file": "x"}, "old_secret_file needs secret_file"),
        ({"kind": "mail", "mail_to": ["a@b"]}, "mail_to needs mail_from and smtp_host"),
        ({"kind": "mail", "mail_to": ["a@b"], "mail_from": "c@d", "smtp_host": "h", "smtp_user": "u"}, "need each other"),
    ],
)
def test_a_channel_that_is_not_whole_is_refused(keys: dict[str, Any], said: str) -> None:
    with pytest.raises(SectionError, match=said):
        NotifySettings.of(keys)


def test_a_password_in_clear_is_refused() -> None:
    mail = {"kind": "mail", "mail_to": ["a@b"], "mail_from": "c@d", "smtp_host": "h", "smtp_user": "u"}
    with pytest.raises(SectionError, match="a password is not sent in clear"):
        NotifySettings.of({**mail, "smtp_password_file": "p", "smtp_security": "none"})


# Files


def test_a_file_is_whole_and_its_owners_alone(tmp_path: Path) -> None:
    """Whatever the umask; sent again it is the same one file."""
    before = os.umask(0)
    try:
        for _ in range(2):
            send(tmp_path, kind="file", folder="notes/all")
    finally:
        os.umask(before)
    (file,) = (tmp_path / "notes" / "all").iterdir()
    assert (file.name, file.read_text("utf-8")) == ("fire-7.md", MESSAGE.text)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


def test_a_file_replaces_a_link_and_never_writes_through_it(tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "other").write_text("mine")
    (tmp_path / "notes" / "fire-7.md").symlink_to(tmp_path / "other")
    (tmp_path / "notes" / f".fire-7.{os.getpid()}").symlink_to(tmp_path / "other")
    send(tmp_path, kind="file", folder="notes")
    assert (tmp_path / "other").read_text() == "mine"
    assert not (tmp_path / "notes" / "fire-7.md").is_symlink()
    assert [path.name for path in (tmp_path / "notes").iterdir()] == ["fire-7.md"]


def test_a_folder_that_cannot_be_is_said(tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("a file")
    with pytest.raises(NotSentError, match="notes cannot be written") as caught:
        send(tmp_path, kind="file", folder="notes")
    assert not caught.value.permanent
    assert not caught.value.in_doubt


# Programs

KEEPER = "import json, os, sys; json.dump([json.load(sys.stdin), dict(os.environ), sys.argv[1:]], open('told', 'w'))"


def test_a_program_gets_the_message_on_standard_input_and_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """T01: no shell; P9: nothing of it in its arguments; only the variables that were named."""
    monkeypatch.setenv("NAMED", "yes")
    monkeypatch.setenv("STOKER_DATABASE_URL", "postgresql://app:canary@db/app")
    send(tmp_path, kind="command", command=[sys.executable, "-c", KEEPER, "; touch x", "$(id)"], env=["NAMED"])
    told, environ, arguments = json.loads((tmp_path / "told").read_text())
    assert told == {
        "kind": "note", "delivery_id": ID, "subject": MESSAGE.subject, "text": MESSAGE.text, "fire": 7,
    }  # fmt: skip
    assert arguments == ["; touch x", "$(id)"]
    assert (environ["NAMED"], environ["STOKER_DELIVERY_ID"]) == ("yes", ID)
    assert "STOKER_DATABASE_URL" not in environ
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize(("code", "permanent"), [(1, False), (75, False), (65, True), (78, True)])
def test_a_program_says_by_its_exit_status_how_it_went(tmp_path: Path, code: int, permanent: bool) -> None:
    script = f"echo 'password=CanaryPw1 refused' >&2; exit {code}"
    with pytest.raises(NotSentError) as caught:
        send(tmp_path, kind="command", command=["/bin/sh", "-c", script])
    assert str(caught.value) == f"/bin/sh ended with exit status {code}: password=[redacted] refused"
    assert (caught.value.permanent, caught.value.in_doubt) == (permanent, True)


def test_a_program_is_ended_with_all_that_it_started_when_its_time_is_over(tmp_path: Path) -> None:
    """P6: also what has a session of its own, or ignores TERM."""
    script = """
import os, subprocess, sys, time
for new in (False, True):
    child = subprocess.Popen(["sleep", "600"], start_new_session=new)
    open("pids", "a").write(f"{child.pid}\\n")
open("pids", "a").write(f"{os.getpid()}\\n")
time.sleep(600)
"""
    began = time.monotonic()
    with pytest.raises(NotSentError, match=r"took longer than 1.5 s, and was ended") as caught:
        send(tmp_path, 1.5, kind="command", command=[sys.executable, "-c", script])
    assert caught.value.in_doubt
    assert time.monotonic() - began < 15
    pids = [int(pid) for pid in (tmp_path / "pids").read_text().split()]
    assert len(pids) == 3
    wait_until(lambda: not any(is_alive(pid) for pid in pids), 5, "all are gone")


def test_a_program_that_reads_nothing_and_says_much_holds_nobody_up(tmp_path: Path) -> None:
    large = Message(ID, "note", "fire-7", "s", "x" * 1_000_000, {})
    send(tmp_path, 20.0, large, kind="command", command=["/bin/sh", "-c", "yes | head -c 3000000 >&2"])


def test_a_program_that_is_not_there_is_not_in_doubt(tmp_path: Path) -> None:
    with pytest.raises(NotSentError, match=r"\./gone cannot be started: No such file") as caught:
        send(tmp_path, kind="command", command=["./gone"])
    assert not caught.value.in_doubt


# Webhooks


def test_a_webhook_is_signed_with_every_secret_and_believed_by_either(tmp_path: Path, sink: Sink) -> None:
    """T13: the new and the old one, from files; what is signed is the very body."""
    files = {"secret_file": secret(tmp_path, "new", "s3cret-new"), "old_secret_file": secret(tmp_path, "old", "s3cret-old")}
    send(tmp_path, kind="webhook", url_file=secret(tmp_path, "url", sink.url), **files)
    (told,) = sink.told
    assert told.delivery == ID
    assert json.loads(told.body)["delivery_id"] == ID
    for known in ("s3cret-new", "s3cret-old"):
        verify(told.headers, told.body, [known], MESSAGE.seconds + 3)
    with pytest.raises(SignatureError):
        verify(told.headers, told.body, ["other"], MESSAGE.seconds)


def test_no_secret_is_sent_or_said(tmp_path: Path, sink: Sink) -> None:
    files = {"secret_file": secret(tmp_path, "new", "CanarySecret")}
    sink.usual = 500
    with pytest.raises(NotSentError) as caught:
        send(tmp_path, kind="webhook", url=f"{sink.url}/CanaryToken?CanaryKey", **files)
    (told,) = sink.told
    assert "Canary" not in str(caught.value)
    assert "CanarySecret" not in str(told.headers) + told.body.decode()


@pytest.mark.parametrize("name", ["gone", "empty", "binary"])
def test_a_secret_that_cannot_be_read_is_said_by_the_name_of_its_file(tmp_path: Path, sink: Sink, name: str) -> None:
    (tmp_path / "empty").write_text("\n")
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    with pytest.raises(NotSentError, match=f"^{name} ") as caught:
        send(tmp_path, kind="webhook", url=sink.url, secret_file=name)
    assert not caught.value.permanent
    assert sink.told == []


@pytest.mark.parametrize("kind", [FLOOD, BOMB])
def test_ten_gigabytes_of_answer_are_not_read(tmp_path: Path, sink: Sink, kind: str) -> None:
    """The status is enough; nothing is unpacked."""
    sink.usual = kind
    began = time.monotonic()
    send(tmp_path, 10.0, kind="webhook", url=sink.url)
    assert time.monotonic() - began < 5
    wait_until(lambda: sink.flooded > 0, 5, "it wrote some")
    assert sink.flooded < 50_000_000


def test_an_answer_that_only_ever_begins_is_cut_off_in_its_time(tmp_path: Path, sink: Sink) -> None:
    sink.usual = CONTINUE
    began = time.monotonic()
    with pytest.raises(NotSentError, match=r"no answer within 1\.0 s") as caught:
        send(tmp_path, 1.0, kind="webhook", url=sink.url)
    assert caught.value.in_doubt
    assert time.monotonic() - began < 5


def test_a_header_of_a_webhook_cannot_be_added_by_what_a_note_says(tmp_path: Path, sink: Sink) -> None:
    """T11: what comes from tasks is in the body alone, as JSON."""
    odd = Message(ID, "note", "fire-7", "x\r\nX-Evil: 1", "a\r\n\r\nGET / HTTP/1.1\r\n", {})
    send(tmp_path, 5.0, odd, kind="webhook", url=sink.url)
    (told,) = sink.told
    assert "X-Evil" not in told.headers
    assert json.loads(told.body)["subject"] == "x\r\nX-Evil: 1"


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A key and a certificate for 127.0.0.1 and localhost, in one file."""
    place = tmp_path_factory.mktemp("tls")
    command = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -keyout key -out cert"
    names = "subjectAltName=DNS:localhost,IP:127.0.0.1"
    subprocess.run([*command.split(), "-addext", names], cwd=place, check=True, capture_output=True)
    (place / "both").write_text((place / "key").read_text() + (place / "cert").read_text())
    return place / "both"


def server_side(certificate: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return context


def test_https_is_spoken_in_the_name_of_the_host_and_only_with_the_right_certificate(
    tmp_path: Path, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Connected to an address, the certificate is checked against the name."""
    with http_sink(server_side(certificate)) as sink:
        url = sink.url.replace("http://127.0.0.1", "https://localhost")
        with pytest.raises(NotSentError, match=r"certificate is not right") as caught:
            send(tmp_path, kind="webhook", url=url)
        assert not caught.value.in_doubt
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate.with_name("cert")))
        send(tmp_path, kind="webhook", url=url)
        assert sink.told[-1].headers["Host"] == f"localhost:{sink.port}"
        assert len(sink.told) == 1


def test_a_server_that_never_shakes_hands_is_cut_off(tmp_path: Path) -> None:
    """Nothing was sent, so nothing is in doubt."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        began = time.monotonic()
        with pytest.raises(NotSentError, match="cannot connect: it took too long") as caught:
            send(tmp_path, 1.0, kind="webhook", url=f"https://127.0.0.1:{silent.getsockname()[1]}/")
        assert not caught.value.in_doubt
        assert time.monotonic() - began < 5


# Mail


def mail(port: int, **keys: Any) -> dict[str, Any]:
    usual = {"kind": "mail", "mail_to": ["a@example.org"], "mail_from": "b@example.org", "smtp_host": "localhost"}
    return {**usual, "smtp_port": port, **keys}


@pytest.mark.parametrize("security", ["starttls", "ssl"])
def test_mail_is_encrypted_and_logs_in_with_a_password_from_a_file(
    tmp_path: Path, certificate: Path, monkeypatch: pytest.MonkeyPatch, security: str
) -> None:
    facts = {"first_byte_tls": security == "ssl", "auth": {"stoker": "CanaryPw"}}
    with smtp_sink(server_side(certificate), **facts) as box:
        keys = mail(box.port, smtp_user="stoker", smtp_password_file="password", smtp_security=security)
        (tmp_path / "password").write_text("CanaryPw\n")
        with pytest.raises(NotSentError, match="certificate is not right"):
            send(tmp_path, **keys)
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate.with_name("cert")))
        send(tmp_path, **keys)
        (tmp_path / "password").write_text("CanaryWrong")
        with pytest.raises(NotSentError, match="answered 535") as caught:
            send(tmp_path, **keys)
    assert caught.value.permanent
    assert "Canary" not in str(caught.value)
    (told,) = box.mails
    assert told["Message-ID"] == f"<{ID}.stoker@example.org>"
    assert told.get_payload(decode=True).decode() == MESSAGE.text.replace("\n", "\r\n")  # type: ignore[union-attr]


def test_a_header_cannot_be_added_by_what_a_note_says(tmp_path: Path) -> None:
    """T11: the subject is one line; what cannot be made a mail says so."""
    with smtp_sink() as box:
        odd = Message(ID, "note", "fire-7", "x\r\nBcc: evil@example.org", "text", {})
        with pytest.raises(NotSentError, match="no mail can be made"):
            send(tmp_path, 5.0, odd, **mail(box.port, smtp_security="none", smtp_host="127.0.0.1"))
        assert box.mails == []


def test_mail_is_whole_in_any_script_and_with_lines_of_any_length(tmp_path: Path) -> None:
    """No line on the way is longer than a server must take; a lone full stop does not end it."""
    text = "Grüße, 日本語, \U0001f525\n" + "x" * 100_000 + "\n.\n" + "ü" * 5000 + "\nFrom here\n"
    with smtp_sink() as box:
        odd = Message(ID, "note", "fire-7", "[stoker] Grüße, 日本語 " + "ü" * 150, text, {})
        send(tmp_path, 5.0, odd, **mail(box.port, smtp_security="none", smtp_host="127.0.0.1"))
    (told,) = box.mails
    assert str(make_header(decode_header(told["Subject"]))) == odd.subject
    assert told.get_payload(decode=True).decode().replace("\r\n", "\n") == text  # type: ignore[union-attr]
    assert max(map(len, told.as_bytes().splitlines())) <= 998


def test_a_mail_server_that_speaks_a_byte_now_and_then_is_cut_off(tmp_path: Path) -> None:
    """The time is that of the whole try."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def trickle() -> None:
            talk, _ = server.accept()
            with talk, suppress(OSError):
                while True:
                    talk.sendall(b"2")
                    time.sleep(0.05)

        threading.Thread(target=trickle, daemon=True).start()
        began = time.monotonic()
        with pytest.raises(NotSentError, match="the mail server ") as caught:
            send(tmp_path, 1.0, **mail(server.getsockname()[1], smtp_security="none", smtp_host="127.0.0.1"))
        assert not caught.value.in_doubt
        assert time.monotonic() - began < 5


# Apprise; what it imports is deprecated here and there


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_apprise_is_told_by_the_one_url_in_its_file(tmp_path: Path, sink: Sink) -> None:
    """A real service of it: JSON by HTTP."""
    url = secret(tmp_path, "url", sink.url.replace("http:", "json:"))
    send(tmp_path, kind="apprise", url_file=url)
    assert MESSAGE.subject in sink.told[0].body.decode()
    sink.usual = 500
    with pytest.raises(NotSentError, match="Apprise could not send it") as caught:
        send(tmp_path, kind="apprise", url_file=url)
    assert caught.value.in_doubt


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("text", ["no service", "json://localhost json://localhost", "nonsense://x"])
def test_apprise_takes_one_url_that_it_knows(tmp_path: Path, text: str) -> None:
    with pytest.raises(NotSentError, match="does not hold one URL") as caught:
        send(tmp_path, kind="apprise", url_file=secret(tmp_path, "url", text))
    assert caught.value.permanent


def test_where_apprise_is_not_installed_it_is_said_how_to_install_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "apprise", None)
    with pytest.raises(NotSentError, match=r"pip install 'stoker\[apprise\]'"):
        send(tmp_path, kind="apprise", url_file=secret(tmp_path, "url", "json://localhost"))
