"""One page by each channel: real HTTP and SMTP servers on loopback, real programs."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from tests.sinks import smtp_sink
from tests.waiting import wait_until
from tests.watchdog.scenes import Sink

from stoker.hygiene.signature import SignatureError, verify
from stoker.sql.section import SectionError
from stoker.watchdog import channels
from stoker.watchdog.channels import Pager
from stoker.watchdog.pages import Page
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
    assert bad.tell("command", page()) == f"{sys.executable} ended with 3"
    assert "No such file" in str(pager(tmp_path, command=["/no/such/program"]).tell("command", page()))


def test_a_program_that_hangs_is_ended_with_what_it_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """P6: within the time of a page."""
    monkeypatch.setattr(channels, "TIMEOUT_SECONDS", 0.5)
    script = "sleep 300 & echo $! > pid; wait"
    why = pager(tmp_path, command=["/bin/sh", "-c", script]).tell("command", page())
    assert why == "/bin/sh took longer than 0.5 s, and was ended"
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
        assert own.tell("mail", page()) == "STARTTLS extension not supported by server."
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
        "apprise bad.url": "bad.url does not hold one URL that Apprise knows",
        "apprise none.url": "none.url cannot be read: No such file or directory",
    }
    assert sink.pages[0]["title"] == "[stoker] wrong: slot day"
    with pytest.raises(SectionError) as error:
        pager(tmp_path, apprise=["slack://canary/x"])
    assert "canary" not in str(error.value.wrongs)


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
from stoker.watchdog.pages import Page
from stoker.watchdog.settings import WatchdogSettings
pager = Pager(WatchdogSettings.of({{"command": ["true"]}}), __import__("pathlib").Path({str(tmp_path)!r}))
assert pager.tell("command", Page("trigger", "c", "w", "i", "d")) is None
sys.stdout.write(" ".join(sys.modules))
"""
    done = subprocess.run([sys.executable, "-P", "-c", text], capture_output=True, text=True, check=True, timeout=60)
    assert {"apprise", "requests", "pydantic", "typer", "anyio", "stoker.orchestrator"} & set(done.stdout.split()) == set()
