"""A mail by SMTP. Its Message-ID is made of the delivery id, so that a repetition can be known for one."""

import smtplib
import socket
import ssl
import threading
import time
from contextlib import suppress
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import formatdate, parseaddr
from pathlib import Path

from stoker.orchestrator.channels.outside import looked_up
from stoker.orchestrator.channels.secret import read_secret
from stoker.orchestrator.message import Message, NotSentError
from stoker.orchestrator.notify_settings import NotifySettings

_LONGEST_ANSWER = 200


def send(settings: NotifySettings, folder: Path, message: Message, seconds: float) -> str | None:
    """Hand it to the server for all recipients; a remark on those that it refused. Once the text is out it may have arrived."""
    mail = _mail(settings, message)
    server: smtplib.SMTP | None = None
    is_sending = False
    try:
        server = _server(settings, seconds)
        _greet(server, settings, folder)
        refused = _envelope(server, settings)
        is_sending = True
        code, answer = server.data(mail)
        if code != 250:
            raise smtplib.SMTPDataError(code, answer)
        with suppress(OSError, smtplib.SMTPException):
            server.quit()
    except smtplib.SMTPResponseException as error:
        words = f"the mail server answered {error.smtp_code}: {_answer(error.smtp_error)}"
        raise NotSentError(words, permanent=500 <= error.smtp_code < 600) from None
    except ssl.SSLCertVerificationError as error:
        raise NotSentError(f"the mail server's certificate is not right: {error.verify_message}") from None
    except smtplib.SMTPNotSupportedError as error:
        raise NotSentError(f"the mail server cannot do it: {error}", permanent=False) from None
    except (OSError, smtplib.SMTPException) as error:
        words = error.strerror if isinstance(error, OSError) and error.strerror else type(error).__name__
        raise NotSentError(f"the mail server did not answer: {words}", in_doubt=is_sending) from None
    finally:
        if server is not None:
            server.close()
    return f"refused for {', '.join(refused)}" if refused else None


class _Bounded(smtplib.SMTP):
    """Ends its connection when the time is over, also one whose other side says a word now and then."""

    timer: threading.Timer | None = None

    def _get_socket(self, host: str, port: int, timeout: float) -> socket.socket:
        deadline = time.monotonic() + timeout
        sock = self._connected(looked_up(host, port, timeout), port, deadline)

        def cut() -> None:
            for one in (self.sock, sock):
                with suppress(OSError, AttributeError):
                    one.shutdown(socket.SHUT_RDWR)  # type: ignore[union-attr]

        self.timer = threading.Timer(deadline - time.monotonic(), cut)
        self.timer.daemon = True
        self.timer.start()
        return sock

    def _connected(self, addresses: list[str], port: int, deadline: float) -> socket.socket:
        """A connection to the first address that takes one; all of them have the same time together."""
        for left, address in enumerate(addresses, 1 - len(addresses)):
            try:
                seconds = max(0.001, deadline - time.monotonic())
                sock: socket.socket = super()._get_socket(address, port, seconds)  # type: ignore[misc]
            except OSError:
                if not left:
                    raise
            else:
                return sock
        raise OSError("the host has no address")

    def close(self) -> None:
        """Let the connection go, and the timer."""
        if self.timer is not None:
            self.timer.cancel()
        super().close()


class _BoundedSsl(_Bounded, smtplib.SMTP_SSL):
    """The same, encrypted from its first byte."""


def _server(settings: NotifySettings, seconds: float) -> smtplib.SMTP:
    if settings.smtp_security == "ssl":
        context = ssl.create_default_context()
        return _BoundedSsl(settings.smtp_host, settings.smtp_port, timeout=seconds, context=context)
    return _Bounded(settings.smtp_host, settings.smtp_port, timeout=seconds)


def _greet(server: smtplib.SMTP, settings: NotifySettings, folder: Path) -> None:
    if settings.smtp_security == "starttls":
        server.starttls(context=ssl.create_default_context())
    server.ehlo_or_helo_if_needed()
    if settings.smtp_user:
        server.login(settings.smtp_user, read_secret(folder, settings.smtp_password_file))


def _envelope(server: smtplib.SMTP, settings: NotifySettings) -> list[str]:
    """Name sender and recipients; those that are refused. Raises if all are."""
    code, answer = server.mail(_address(settings.mail_from))
    if code != 250:
        raise smtplib.SMTPResponseException(code, answer)
    answers = {to: server.rcpt(_address(to)) for to in settings.mail_to}
    refused = [to for to, (code, _) in answers.items() if code not in (250, 251)]
    if len(refused) == len(answers):
        raise smtplib.SMTPResponseException(*min(answers.values(), key=lambda one: one[0]))
    return refused


def _mail(settings: NotifySettings, message: Message) -> bytes:
    mail = EmailMessage(policy=SMTP)
    domain = _address(settings.mail_from).rpartition("@")[2]
    try:
        mail["Subject"], mail["From"], mail["To"] = message.subject, settings.mail_from, ", ".join(settings.mail_to)
        mail["Date"] = formatdate(message.seconds)
        mail["Message-ID"] = f"<{message.delivery_id}.stoker@{domain or 'localhost'}>"
        mail["Auto-Submitted"], mail["Stoker-Delivery"] = "auto-generated", message.delivery_id
        mail.set_content(message.text)
        return mail.as_bytes()
    except (ValueError, IndexError) as error:
        raise NotSentError(f"no mail can be made of mail_from, mail_to and the note: {type(error).__name__}") from None


def _address(text: str) -> str:
    return parseaddr(text)[1]


def _answer(answer: bytes | str) -> str:
    text = answer.decode("utf-8", "replace") if isinstance(answer, bytes) else answer
    return " ".join(text.split())[:_LONGEST_ANSWER]
