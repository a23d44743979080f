"""How somebody is told: a program, a signed webhook, PagerDuty, mail, Apprise. Only Apprise needs more than Python has."""

import hashlib
import http.client
import json
import os
import signal
import smtplib
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from email.message import EmailMessage
from email.utils import formatdate, parseaddr
from functools import partial
from pathlib import Path
from typing import Any

from stoker.hygiene.signature import DELIVERY, sign
from stoker.watchdog.pages import ACKNOWLEDGE, ESCALATE, TRIGGER, NotTaken, Page, PageError
from stoker.watchdog.settings import WatchdogSettings

TIMEOUT_SECONDS = 20.0
SECOND = "escalate_command"
PROGRAMS = ("command", "webhook", "pagerduty")  # which are told of an acknowledgement
_NAME_LENGTH = 200
_PAGERDUTY = "https://events.pagerduty.com/v2/enqueue"
_PRIVATE = ("STOKER_DATABASE_URL", "DATABASE_URL", "PGPASSWORD")
_CUT = (TimeoutError, ConnectionResetError, ConnectionAbortedError, BrokenPipeError, smtplib.SMTPServerDisconnected)
_KNOWN = (OSError, ValueError, smtplib.SMTPException, subprocess.SubprocessError)  # whose words quote nothing secret

Send = Callable[[Page], None]


class Pager:
    """The configured channels. ``folder`` is where relative paths of secrets begin, and a program runs."""

    def __init__(self, settings: WatchdogSettings, folder: Path, pagerduty: str = _PAGERDUTY) -> None:
        self._settings = settings
        self._folder = folder
        self._pagerduty = pagerduty

    @property
    def channels(self) -> dict[str, Send]:
        """Those that are configured, by name."""
        settings = self._settings
        found: dict[str, tuple[object, Send]] = {
            "command": (settings.command, partial(self._run, settings.command)),
            SECOND: (settings.escalate_command, partial(self._run, settings.escalate_command)),
            "webhook": (settings.webhook, self._post),
            "pagerduty": (settings.pagerduty_key_file, self._page),
            "mail": (settings.mail_to, self._mail),
        }
        named = {name: send for name, (wanted, send) in found.items() if wanted}
        return named | {_bounded(f"apprise {name}"): partial(self._notify, name) for name in settings.apprise}

    @property
    def first(self) -> list[str]:
        """The channels that are told at once."""
        return [name for name in self.channels if name != SECOND]

    @property
    def second(self) -> list[str]:
        """The channel that is told when nobody has taken an incident for long, if there is one."""
        return [name for name in self.channels if name == SECOND]

    def receivers(self, action: str) -> list[str]:
        """By which channels a page is sent that is not of the database's keeping."""
        if action == ESCALATE:
            return list(self.channels)
        return [name for name in self.first if action != ACKNOWLEDGE or name in PROGRAMS]

    def tell(self, channel: str, page: Page) -> NotTaken | None:
        """Send by one channel; None, or why it did not take the page, which never holds a secret. Raises nothing."""
        try:
            self.channels[channel](page)
        except PageError as error:
            return NotTaken(_line(error), error.in_doubt)
        except _KNOWN as error:
            return NotTaken(_line(error), isinstance(error, _CUT))
        except Exception as error:  # noqa: BLE001 - foreign code, such as a plugin of Apprise
            return NotTaken(f"it failed with {type(error).__name__}", in_doubt=True)
        return None

    def _run(self, program: Sequence[str], page: Page) -> None:
        known = {name: value for name, value in os.environ.items() if name not in _PRIVATE}
        child = subprocess.Popen(
            list(program),
            cwd=self._folder,
            env={**known, "STOKER_DELIVERY_ID": page.delivery_id},
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            child.communicate(json.dumps(page.as_json()).encode(), TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
            raise PageError(f"{program[0]} took longer than {TIMEOUT_SECONDS:g} s, and was ended", in_doubt=True) from None
        if child.returncode != 0:
            raise PageError(f"{program[0]} ended with {child.returncode}", in_doubt=child.returncode < 0)

    def _post(self, page: Page) -> None:
        settings, body = self._settings, json.dumps(page.as_json()).encode()
        headers = {"Content-Type": "application/json", "User-Agent": "stoker-watchdog", DELIVERY: page.delivery_id}
        names = (settings.webhook_secret_file, settings.webhook_old_secret_file)
        if secrets := [self._secret(name) for name in names if name]:
            headers |= sign(secrets, body, time.time())
        request(settings.webhook, body, headers)

    def _page(self, page: Page) -> None:
        event = {
            "routing_key": self._secret(self._settings.pagerduty_key_file),
            "event_action": TRIGGER if page.action == ESCALATE else page.action,
            "dedup_key": page.key[:255],
            "payload": {
                "summary": (f"ESCALATED: {page.text}" if page.action == ESCALATE else page.text)[:1024],
                "source": "stoker-watchdog",
                "severity": "info" if page.is_drill else "critical",
                "custom_details": page.as_json(),
            },
        }
        request(self._pagerduty, json.dumps(event).encode(), {"Content-Type": "application/json"})

    def _mail(self, page: Page) -> None:
        settings, mail = self._settings, EmailMessage()
        domain = parseaddr(settings.mail_from)[1].rpartition("@")[2]
        mail["Subject"], mail["From"], mail["To"] = page.subject, settings.mail_from, ", ".join(settings.mail_to)
        mail["Date"], mail["Message-ID"] = formatdate(), f"<{page.delivery_id}.stoker@{domain or 'localhost'}>"
        mail["Auto-Submitted"], mail[DELIVERY] = "auto-generated", page.delivery_id
        mail.set_content(page.text + "\n")
        context = ssl.create_default_context()
        with self._server(context) as server:
            if settings.smtp_security == "starttls":
                server.starttls(context=context)
            if settings.smtp_user:
                server.login(settings.smtp_user, self._secret(settings.smtp_password_file))
            server.send_message(mail)

    def _server(self, context: ssl.SSLContext) -> smtplib.SMTP:
        host, port = self._settings.smtp_host, self._settings.smtp_port
        if self._settings.smtp_security == "ssl":
            return smtplib.SMTP_SSL(host, port, timeout=TIMEOUT_SECONDS, context=context)
        return smtplib.SMTP(host, port, timeout=TIMEOUT_SECONDS)

    def _notify(self, name: str, page: Page) -> None:
        try:
            import apprise
        except ImportError:
            raise PageError("apprise is not installed here: pip install 'stoker[apprise]'") from None
        url = self._secret(name)
        service = None if len(url.split()) != 1 else apprise.Apprise.instantiate(url)
        if service is None:
            raise PageError(f"{name} does not hold one URL that Apprise knows")
        if not service.notify(title=page.subject, body=page.text, body_format=apprise.NotifyFormat.TEXT):
            raise PageError("Apprise could not send it; it does not say why", in_doubt=True)

    def _secret(self, name: str) -> str:
        """What a file holds, read at each try, so that a new one needs no restart."""
        try:
            text = (self._folder / Path(name).expanduser()).read_bytes().decode().strip()
        except OSError as error:
            raise PageError(f"{name} cannot be read: {error.strerror}") from None
        except UnicodeDecodeError:
            raise PageError(f"{name} is not UTF-8") from None
        if not text:
            raise PageError(f"{name} is empty")
        return text


def _bounded(name: str) -> str:
    """A channel's name as the database keeps it: what is too long ends in a hash of the whole."""
    if len(name) <= _NAME_LENGTH:
        return name
    return f"{name[: _NAME_LENGTH - 17]} {hashlib.sha256(name.encode()).hexdigest()[:16]}"


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        """None is followed: what is told is for the one who was named."""


def request(url: str, body: bytes | None, headers: Mapping[str, str]) -> None:
    """POST ``body``, or GET; raises PageError unless the answer is 2xx, and OSError when there is none."""
    try:
        asked = urllib.request.Request(url, body, dict(headers))  # noqa: S310 - checked to be http(s)
        with urllib.request.build_opener(_NoRedirects).open(asked, timeout=TIMEOUT_SECONDS):
            return
    except urllib.error.HTTPError as error:
        raise PageError(f"the answer was {error.code}") from None
    except urllib.error.URLError as error:
        raise PageError(str(error.reason), in_doubt=isinstance(error.reason, _CUT)) from None
    except (http.client.InvalidURL, ValueError):
        raise PageError("its URL cannot be used: is there a space in it, or a port that is no number?") from None
    except http.client.HTTPException as error:
        raise PageError(f"the answer is no HTTP ({type(error).__name__})", in_doubt=True) from None


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:300] or type(error).__name__
