"""How somebody is told: a program, a signed webhook, PagerDuty, mail. Only the standard library is needed."""

import hashlib
import hmac
import json
import smtplib
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from email.message import EmailMessage
from pathlib import Path
from typing import Any

from stoker.watchdog.settings import WatchdogSettings

_TIMEOUT_SECONDS = 20.0
_PAGERDUTY = "https://events.pagerduty.com/v2/enqueue"
TRIGGER, RESOLVE = "trigger", "resolve"


class PageError(Exception):
    """A page that did not go out; the text says by which channel and why, without what is secret."""


@dataclass(frozen=True, slots=True)
class Page:
    """What is told: ``action`` is trigger or resolve; ``cause`` names the incident on the other side too."""

    action: str
    cause: str
    words: str
    installation: str
    number: int = 1

    @property
    def key(self) -> str:
        """The same for every page of one incident's cause."""
        return f"stoker {self.installation} {self.cause}"

    @property
    def subject(self) -> str:
        """One line."""
        return f"[stoker] {'resolved' if self.action == RESOLVE else 'wrong'}: {self.cause}"

    def as_json(self) -> dict[str, Any]:
        """For programs."""
        return {
            "action": self.action,
            "cause": self.cause,
            "text": self.words,
            "installation": self.installation,
            "key": self.key,
            "number": self.number,
        }


class Pager:
    """The configured channels. ``folder`` is where relative paths of secrets begin, and a program runs."""

    def __init__(self, settings: WatchdogSettings, folder: Path, pagerduty: str = _PAGERDUTY) -> None:
        self._settings = settings
        self._folder = folder
        self._pagerduty = pagerduty

    @property
    def channels(self) -> dict[str, Callable[[Page], None]]:
        """Those that are configured, by name."""
        settings = self._settings
        found = {
            "command": (settings.command, self._run),
            "webhook": (settings.webhook, self._post),
            "pagerduty": (settings.pagerduty_key_file, self._page),
            "mail": (settings.mail_to, self._mail),
        }
        return {name: send for name, (wanted, send) in found.items() if wanted}

    def send(self, page: Page) -> None:
        """By every channel; one that fails keeps no other back. Raises PageError when none of them took it."""
        failures = []
        for name, send in self.channels.items():
            try:
                send(page)
            except (OSError, PageError, ValueError, smtplib.SMTPException, subprocess.SubprocessError) as error:
                failures.append(f"{name}: {_why(error)}")
        if not self.channels or len(failures) == len(self.channels):
            raise PageError("; ".join(failures) or "no channel is configured in [watchdog]")

    def _run(self, page: Page) -> None:
        done = subprocess.run(
            list(self._settings.command),
            input=json.dumps(page.as_json()).encode(),
            cwd=self._folder,
            timeout=_TIMEOUT_SECONDS,
            check=False,
            capture_output=True,
        )
        if done.returncode != 0:
            raise PageError(f"{self._settings.command[0]} ended with {done.returncode}")

    def _post(self, page: Page) -> None:
        body = json.dumps(page.as_json()).encode()
        headers = {"Content-Type": "application/json"}
        if self._settings.webhook_secret_file:
            stamp = str(int(time.time()))
            signed = hmac.new(self._secret(self._settings.webhook_secret_file), f"{stamp}.".encode() + body, hashlib.sha256)
            headers |= {"Stoker-Timestamp": stamp, "Stoker-Signature": f"v1={signed.hexdigest()}"}
        request(self._settings.webhook, body, headers)

    def _page(self, page: Page) -> None:
        event = {
            "routing_key": self._secret(self._settings.pagerduty_key_file).decode(),
            "event_action": page.action,
            "dedup_key": page.key[:255],
            "payload": {"summary": page.words[:1024], "source": "stoker-watchdog", "severity": "critical"},
        }
        request(self._pagerduty, json.dumps(event).encode(), {"Content-Type": "application/json"})

    def _mail(self, page: Page) -> None:
        settings, message = self._settings, EmailMessage()
        message["Subject"], message["From"], message["To"] = page.subject, settings.mail_from, ", ".join(settings.mail_to)
        message.set_content(page.words + "\n")
        with smtplib.SMTP(settings.smtp_host, settings.smtp_port, timeout=_TIMEOUT_SECONDS) as server:
            if server.has_extn("starttls"):
                server.starttls(context=ssl.create_default_context())
            if settings.smtp_user:
                server.login(settings.smtp_user, self._secret(settings.smtp_password_file).decode())
            server.send_message(message)

    def _secret(self, name: str) -> bytes:
        return (self._folder / name).read_bytes().strip()


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        """None is followed: what is told is for the one who was named."""


def request(url: str, body: bytes | None, headers: Mapping[str, str]) -> None:
    """POST ``body``, or GET; raises PageError unless the answer is 2xx."""
    asked = urllib.request.Request(url, body, dict(headers))  # noqa: S310 - checked to be http(s)
    try:
        with urllib.request.build_opener(_NoRedirects).open(asked, timeout=_TIMEOUT_SECONDS):
            return
    except urllib.error.HTTPError as error:
        raise PageError(f"the answer was {error.code}") from None
    except urllib.error.URLError as error:
        raise PageError(str(error.reason)) from None


def _why(error: BaseException) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__
