"""One page by each channel: real HTTP and SMTP servers on loopback, real programs."""

import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.sinks import DROP, HANG, TRICKLE, http_sink, smtp_sink
from tests.waiting import wait_until
from tests.watchdog.scenes import Connection, Sink, watch

from stoker.hygiene.signature import SignatureError, verify
from stoker.sql.section import SectionError
from stoker.watchdog import channels, switch
from stoker.watchdog.channels import Pager
from stoker.watchdog.pages import NotTaken, Page
from stoker.watchdog.settings import WatchdogSettings

ID = "5b0c6a0e-0000-4000-8000-000000000001"


def page(action: str = "trigger", cause: str = "slot day", words: str = "words") -> Page:
    return Page(action, cause, words, "i", ID)


def pager(folder: Path, pagerduty: str = "", **keys: Any) -> Pager:
    return Pager(WatchdogSettings.of(keys), folder, pagerduty)


def test_a_webhook_is_signed_as_notes_are_with_both_keys_while_they_roll(sink: Sink, tmp_path: Path) -> None:
    """T13: the receiver checks with one function, whichever key it has; the delivery id is in the header."""
    (tmp_path / "new").write_text("new secret\n")
    (tmp_path / "old").write_text("old secret\n")
    keys = {"webhook": sink.url, "webhook_secret_file": "new", "webhook_old_secret_file": "old"}
    assert pager(tmp_path, **keys).tell("webhook", page()) is None
    ((_, headers, body),) = sink.told
    for secret in ("new secret", "old secret"):
        verify(headers, body, [secret], time.time())
    with pytest.raises(SignatureError):
        verify(headers, body, ["another"], time.time())
    assert (headers["Stoker-Delivery"], json.loads(body)["delivery_id"]) == (ID, ID)


def test_pagerduty_gets_one_key_for_all_of_an_incident(sink: Sink, tmp_path: Path) -> None:
    """Trigger, escalation, acknowledgement and resolution by the same dedup key; a drill wakes nobody."""
    (tmp_path / "key").write_text("routing\n")
    own = pager(tmp_path, sink.url, pagerduty_key_file="key")
    for action in ("trigger", "escalate", "acknowledge", "resolve"):
        assert own.tell("pagerduty", page(action)) is None
    assert own.tell("pagerduty", page(cause="drill 1")) is None
    assert [(one["event_action"], one["dedup_key"], one["routing_key"]) for one in sink.pages] == [
        ("trigger", "stoker i slot day", "routing"),
        ("trigger", "stoker i slot day", "routing"),
        ("acknowledge", "stoker i slot day", "routing"),
        ("resolve", "stoker i slot day", "routing"),
        ("trigger", "stoker i drill 1", "routing"),
    ]
    assert [one["payload"]["severity"] for one in sink.pages] == ["critical"] * 4 + ["info"]
    assert sink.pages[1]["payload"]["summary"] == "ESCALATED: words"


def test_a_program_gets_the_page_on_standard_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """T01, T09: without a shell, without the database's URL; its exit status counts."""
    monkeypatch.setenv("DATABASE_URL", "postgresql://u:canary@h/d")
    code = "import os, sys; open('got', 'w').write(sys.stdin.read()); open('env', 'w').write(repr(os.environ))"
    assert pager(tmp_path, command=[sys.executable, "-c", code]).tell("command", page(words="words; rm -rf /")) is None
    assert json.loads((tmp_path / "got").read_text())["text"] == "words; rm -rf /"
    said = (tmp_path / "env").read_text()
    assert ID in said
    assert "canary" not in said
    bad = pager(tmp_path, command=[sys.executable, "-c", "import sys; sys.exit(3)"])
    assert bad.tell("command", page()) == NotTaken(f"{sys.executable} ended with 3")
    assert "No such file" in str(pager(tmp_path, command=["/no/such/program"]).tell("command", page()))


def test_a_program_that_hangs_is_ended_with_what_it_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """P6: within the time of a page."""
    monkeypatch.setattr(channels, "TIMEOUT_SECONDS", 0.5)
    script = "sleep 300 & echo $! > pid; wait"
    why = pager(tmp_path, command=["/bin/sh", "-c", script]).tell("command", page())
    assert why == NotTaken("/bin/sh took longer than 0.5 s, and was ended", in_doubt=True)
    pid = int((tmp_path / "pid").read_text())

    def is_gone() -> bool:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        return Path(f"/proc/{pid}/stat").read_text().split()[2] == "Z"

    wait_until(is_gone, message="it goes on")


def test_mail_goes_out_under_its_delivery_id(tmp_path: Path) -> None:
    """To everybody named, with a subject of one line whatever the cause is called."""
    with smtp_sink() as box:
        keys: dict[str, Any] = {"mail_to": ["a@example.org", "b@example.org"], "mail_from": "Stoker <s@example.org>"}
        own = pager(tmp_path, **keys, smtp_host="127.0.0.1", smtp_port=box.port, smtp_security="none")
        assert own.tell("mail", page("resolve", "slot\nBcc: x@example.org", "It is over.")) is None
    (mail,) = box.mails
    assert mail["Subject"] == "[stoker] resolved: slot Bcc: x@example.org"
    assert (mail["Bcc"], mail["To"]) == (None, "a@example.org, b@example.org")
    assert (mail["Message-ID"], mail["Stoker-Delivery"]) == (f"<{ID}.stoker@example.org>", ID)
    assert mail.get_payload().strip() == "It is over."


def test_mail_does_not_go_out_in_clear_where_that_was_not_asked_for(tmp_path: Path) -> None:
    """A server that offers no encryption gets neither the page nor the password."""
    (tmp_path / "password").write_text("canary")
    with smtp_sink() as box:
        keys: dict[str, Any] = {"mail_to": ["a@example.org"], "mail_from": "s@example.org", "smtp_user": "u"}
        own = pager(tmp_path, **keys, smtp_host="127.0.0.1", smtp_port=box.port, smtp_password_file="password")
        assert own.tell("mail", page()) == NotTaken("STARTTLS extension not supported by server.")
    assert (box.mails, box.said) == ([], [])


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_apprise_is_asked_only_when_it_is_configured(sink: Sink, tmp_path: Path) -> None:
    """Its URL is a secret, and so stands in a file; a failure names the file alone."""
    (tmp_path / "chat.url").write_text(f"json://127.0.0.1:{sink.server.server_port}/x\n")
    (tmp_path / "bad.url").write_text("canary://x y\n")
    own = pager(tmp_path, apprise=["chat.url", "bad.url", "none.url"])
    said = {name: own.tell(name, page()) for name in own.channels}
    assert said == {
        "apprise chat.url": None,
        "apprise bad.url": NotTaken("bad.url does not hold one URL that Apprise knows"),
        "apprise none.url": NotTaken("none.url cannot be read: No such file or directory"),
    }
    assert sink.pages[0]["title"] == "[stoker] wrong: slot day"
    with pytest.raises(SectionError) as error:
        pager(tmp_path, apprise=["slack://canary/x"])
    assert "canary" not in str(error.value.wrongs)


@pytest.fixture
def garbage() -> Iterator[str]:
    """The URL of a server that answers what is no HTTP."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answer() -> None:
            with suppress(OSError):
                while True:
                    one, _ = listening.accept()
                    with one:
                        one.recv(65536)
                        one.sendall(b"who are you?\r\n\r\n")

        threading.Thread(target=answer, daemon=True).start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/canary"


def test_a_webhook_that_answers_no_http_did_not_take_the_page(garbage: str, tmp_path: Path) -> None:
    """It may have: it may have passed it on. By a URL that cannot be used it never went, and none is quoted."""
    said = pager(tmp_path, webhook=garbage).tell("webhook", page())
    assert said == NotTaken("the answer is no HTTP (BadStatusLine)", in_doubt=True)
    for url in ("http://127.0.0.1/can ary", "http://127.0.0.1:canary/", "http://[canary/"):
        refused = pager(tmp_path, webhook=url).tell("webhook", page())
        assert refused is not None
        assert (refused.why[:22], refused.in_doubt, "canary" in refused.why) == ("its URL cannot be used", False, False)


def test_a_try_that_was_cut_off_may_have_arrived_and_one_that_was_refused_did_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By an answer that does not come, a connection that is cut, a program that is killed."""
    monkeypatch.setattr(channels, "TIMEOUT_SECONDS", 0.3)
    doubts = []
    with http_sink() as receiver:
        for answer in (HANG, DROP, 500):
            receiver.usual = answer
            refused = pager(tmp_path, webhook=receiver.url).tell("webhook", page())
            doubts.append(refused and refused.in_doubt)
    with smtp_sink() as box:
        box.answers = [DROP]
        keys: dict[str, Any] = {"mail_to": ["a@example.org"], "mail_from": "s@example.org", "smtp_security": "none"}
        refused = pager(tmp_path, **keys, smtp_host="127.0.0.1", smtp_port=box.port).tell("mail", page())
        doubts.append(refused and refused.in_doubt)
    for script in ("kill -9 $$", "exit 1"):
        refused = pager(tmp_path, command=["/bin/sh", "-c", script]).tell("command", page())
        doubts.append(refused and refused.in_doubt)
    refused = pager(tmp_path, webhook=receiver.url).tell("webhook", page())
    doubts.append(refused and refused.in_doubt)
    assert doubts == [True, True, False, True, True, False, False]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_whatever_a_plugin_raises_is_a_failure_that_is_recorded(
    database: str, connection: Connection, sink: Sink, tmp_path: Path
) -> None:
    """Foreign code ends no thread and no watchdog; its words may hold what is secret, and are not told."""
    import apprise

    class Fails(apprise.NotifyBase):  # type: ignore[misc]
        service_name, secure_protocol = "fails", "strange"

        def notify(self, *_: Any, **__: Any) -> bool:
            raise LookupError("canary")

    apprise.plugins.N_MGR.add(Fails, schemas="strange", force=True)
    (tmp_path / "strange.url").write_text("strange://here")
    connection.execute("update stoker.installation set created_at = now() - interval '2 h'")
    dog = watch(database, tmp_path, expected_interval="1h", webhook=sink.url, apprise=["strange.url"])
    look = dog.look()
    assert (look.sent, look.failures) == (1, ["apprise strange.url: it failed with LookupError"])
    assert connection.execute("select failure, in_doubt from stoker.page_deliveries where failure is not null").fetchall() == [
        ("it failed with LookupError", True)
    ]
    dog.close()


def test_a_switch_that_answers_no_http_or_without_end_keeps_no_look_back(
    database: str, garbage: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """That it was not told is said; what drips is waited for once, and not asked again while it drips."""
    for url, words in (
        (garbage, "the answer is no HTTP (BadStatusLine)"),
        ("http://127.0.0.1:1/a b", "its URL cannot be used"),
    ):
        dog = watch(database, tmp_path, ping=url)
        assert dog.look().findings == []
        assert capsys.readouterr().err.count(f"was not told: {words}") == 2
        dog.close()
    monkeypatch.setattr(switch, "TIMEOUT_SECONDS", 0.5)
    with http_sink() as dripping:
        dripping.usual = TRICKLE
        dog, began = watch(database, tmp_path, ping=dripping.url), time.monotonic()
        for _ in range(3):
            assert dog.look().findings == []
        assert time.monotonic() - began < 5
        assert len(dripping.told) == 1
        dog.close()
    assert capsys.readouterr().err.count("was not told: it has not answered within 0.5 s") == 6


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"webhook_old_secret_file": "old"}, "needs webhook_secret_file"),
        ({"escalate_command": ["x"]}, "needs escalate_after"),
        ({"smtp_security": "perhaps"}, "expected"),
    ],
)
def test_what_is_half_configured_is_refused(keys: dict[str, Any], words: str) -> None:
    """It says what is missing."""
    with pytest.raises(SectionError) as error:
        WatchdogSettings.of(keys)
    assert words in str(error.value.wrongs)


def test_apprise_is_not_loaded_where_it_is_not_used(tmp_path: Path) -> None:
    """Pages need what Python has, and the database's driver."""
    text = f"""
import sys
import stoker.watchdog.watch
from stoker.watchdog.channels import Pager
from stoker.watchdog.pages import NotTaken, Page
from stoker.watchdog.settings import WatchdogSettings
pager = Pager(WatchdogSettings.of({{"command": ["true"]}}), __import__("pathlib").Path({str(tmp_path)!r}))
assert pager.tell("command", Page("trigger", "c", "w", "i", "d")) is None
sys.stdout.write(" ".join(sys.modules))
"""
    done = subprocess.run([sys.executable, "-P", "-c", text], capture_output=True, text=True, check=True, timeout=60)
    assert {"apprise", "requests", "pydantic", "typer", "anyio", "stoker.orchestrator"} & set(done.stdout.split()) == set()
