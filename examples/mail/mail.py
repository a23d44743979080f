"""Sends mail by SMTP, so that each letter arrives once, or, where nobody can know, twice under one Message-ID.

What is kept of each try, before and after it, are steps: they outlive the process, the worker and the host. The one moment
that no sender can close lies between the server's "250 OK" and the step that records it. A try that was cut off there is in
doubt; MAIL_IN_DOUBT says what then: "again" (the default) sends it once more with the same Message-ID, "ask" holds the task
with a question until a person answers "sent" or "again".
"""

import os
import smtplib
import ssl
from contextlib import suppress
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import formatdate
from pathlib import Path
from typing import Any

from stoker.worker.task import Fail, Hold, Task

TIMEOUT_SECONDS = 30.0
Letter = dict[str, str]


def send(task: Task[Letter]) -> Any:
    """Send what the payload says: to, subject, text; the Message-ID is the result."""
    message_id = f"<{task.delivery_id}@{os.environ['MAIL_FROM'].rpartition('@')[2].rstrip('>')}>"
    if "sent" in task.steps_done:
        return {"message_id": message_id}
    if in_doubt(task) and os.environ.get("MAIL_IN_DOUBT") == "ask":
        if task.answer is None:
            return Hold(f"was {message_id} sent? A try was cut off. Answer sent, or again")
        if task.answer == "sent":
            return {"message_id": message_id}
    number = 1 + sum(step.startswith("try ") for step in task.steps_done)
    task.step(f"try {number}", lambda: None)
    try:
        hand_over(letter(task.payload, message_id), task.payload["to"])
    except smtplib.SMTPResponseException as error:
        code = error.smtp_code
        task.step(f"refused {number}", lambda: code)
        if code >= 500:
            return Fail(f"the mail server refused it: {code}")
        raise
    task.step("sent", lambda: number)
    return {"message_id": message_id}


def in_doubt(task: Task[Letter]) -> bool:
    """Whether a try was begun of which nobody knows how it ended."""
    begun, refused = (sum(step.startswith(word) for step in task.steps_done) for word in ("try ", "refused "))
    return begun > refused


def letter(payload: Letter, message_id: str) -> bytes:
    """The mail itself."""
    mail = EmailMessage(policy=SMTP)
    mail["From"], mail["To"], mail["Subject"] = os.environ["MAIL_FROM"], payload["to"], payload["subject"]
    mail["Date"], mail["Message-ID"] = formatdate(), message_id
    mail.set_content(payload["text"])
    return mail.as_bytes()


def hand_over(mail: bytes, to: str) -> None:
    """Give it to the server. Raises SMTPResponseException when it says no, and anything else when it does not answer."""
    host, _, port = os.environ["MAIL_SERVER"].partition(":")
    server = smtplib.SMTP(host, int(port or 587), timeout=TIMEOUT_SECONDS)
    try:
        server.ehlo()
        if os.environ.get("MAIL_TLS", "yes") != "no":
            server.starttls(context=ssl.create_default_context())
        if user := os.environ.get("MAIL_USER"):
            server.login(user, Path(os.environ["MAIL_PASSWORD_FILE"]).read_text("utf-8").strip())
        say(server.mail(os.environ["MAIL_FROM"]))
        say(server.rcpt(to))
        say(server.data(mail))
        with suppress(OSError, smtplib.SMTPException):
            server.quit()
    finally:
        server.close()


def say(answer: tuple[int, bytes]) -> None:
    """Take the server's answer for what it is."""
    if answer[0] not in (250, 251):
        raise smtplib.SMTPResponseException(*answer)
