"""The sections about telling people: [delivery], and one [notify.NAME] for each channel."""

from typing import Annotated, Literal

from stoker.sql.section import Section, checked
from stoker.sql.settings import Count, Duration, LastingDuration, Positive, Text, Texts

# By kind: the keys that one of must be given, and those that may be.
KINDS = {
    "file": (("folder",), ()),
    "command": (("command",), ("env",)),
    "webhook": (("url", "url_file"), ("secret_file", "old_secret_file")),
    "mail": (("mail_to",), ("mail_from", "smtp_host", "smtp_port", "smtp_user", "smtp_password_file", "smtp_security")),
    "apprise": (("url_file",), ()),
}
_OF_A_KIND = {key for needed, more in KINDS.values() for key in (*needed, *more)}


def _is_a_kind(kind: str) -> str:
    if kind not in KINDS:
        raise ValueError(f"must be one of {', '.join(KINDS)}")
    return kind


class DeliverySettings(Section):
    """When notes are sent, how long a fire waits for that, and how often a channel that fails is tried."""

    every_seconds: LastingDuration = 5.0
    fire_wait_seconds: Duration = 5.0
    backoff_base_seconds: LastingDuration = 10.0
    backoff_cap_seconds: LastingDuration = 900.0
    max_attempts: Positive = 100
    collapse_after_seconds: LastingDuration = 300.0


class NotifySettings(Section):
    """One channel: who is told, by what, and of which notes."""

    kind: Annotated[Text, checked(_is_a_kind)] = ""
    send: Literal["always", "problems"] = "always"
    timeout_seconds: LastingDuration = 10.0
    folder: Text = ""
    command: Texts = ()
    env: Texts = ()
    url: Text = ""
    url_file: Text = ""
    secret_file: Text = ""
    old_secret_file: Text = ""
    mail_to: Texts = ()
    mail_from: Text = ""
    smtp_host: Text = ""
    smtp_port: Count = 587
    smtp_user: Text = ""
    smtp_password_file: Text = ""
    smtp_security: Literal["starttls", "ssl", "none"] = "starttls"

    def check(self) -> None:
        """A channel is whole, and has no key of another kind."""
        if not self.kind:
            raise ValueError(f'needs kind = "...", one of {", ".join(KINDS)}')
        needed, more = KINDS[self.kind]
        given = [key for key in _OF_A_KIND if getattr(self, key) != getattr(type(self), key)]
        if foreign := sorted(set(given) - {*needed, *more}):
            raise ValueError(f"{foreign[0]} is no key of kind {self.kind}, which has {', '.join((*needed, *more))}")
        if len(set(given) & set(needed)) != 1:
            raise ValueError(f"kind {self.kind} needs {' or '.join(needed)}" + (", not both" if len(needed) > 1 else ""))
        if self.url and not self.url.startswith(("https://", "http://")):
            raise ValueError('url must begin with "https://"')
        if "@" in self.url.partition("://")[2].partition("/")[0]:
            raise ValueError("url must not name a user: let a receiver know its sender by secret_file")
        if self.old_secret_file and not self.secret_file:
            raise ValueError("old_secret_file needs secret_file")
        if self.kind == "mail":
            self._check_mail()

    def _check_mail(self) -> None:
        if not (self.mail_from and self.smtp_host):
            raise ValueError("mail_to needs mail_from and smtp_host")
        if bool(self.smtp_user) != bool(self.smtp_password_file):
            raise ValueError("smtp_user and smtp_password_file need each other")
        if self.smtp_user and self.smtp_security == "none":
            raise ValueError('smtp_user needs smtp_security = "starttls" or "ssl": a password is not sent in clear')
