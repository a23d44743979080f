"""The section of config.toml that belongs to this room: [watchdog]."""

from typing import Literal

from stoker.sql.section import Section
from stoker.sql.settings import Count, LastingDuration, LastingDurationOrNone, Positive, Text, Texts

PORT = 587


class WatchdogSettings(Section):
    """What is expected, when somebody is told of what did not happen, and how."""

    every_seconds: LastingDuration = 30.0
    expected_interval_seconds: LastingDurationOrNone = None
    grace_seconds: LastingDuration = 600.0
    lane: Text = "main"
    hollow_fires: Positive = 3
    idle_fires: Positive = 1
    oldest_task_seconds: LastingDurationOrNone = None
    undelivered_after_seconds: LastingDurationOrNone = 3600.0
    gate_reminder_seconds: LastingDurationOrNone = 86_400.0
    unreachable_after_seconds: LastingDuration = 120.0
    repeat_seconds: LastingDuration = 3600.0
    escalate_after_seconds: LastingDurationOrNone = None
    quiet_seconds: LastingDuration = 300.0
    pages_per_hour: Positive = 20
    command: Texts = ()
    escalate_command: Texts = ()
    webhook: Text = ""
    webhook_secret_file: Text = ""
    webhook_old_secret_file: Text = ""
    pagerduty_key_file: Text = ""
    mail_to: Texts = ()
    mail_from: Text = ""
    smtp_host: Text = ""
    smtp_port: Count = PORT
    smtp_user: Text = ""
    smtp_password_file: Text = ""
    smtp_security: Literal["starttls", "ssl", "none"] = "starttls"
    apprise: Texts = ()
    ping: Text = ""

    def check(self) -> None:
        """A channel is whole."""
        for name in ("webhook", "ping"):
            if getattr(self, name) and not getattr(self, name).startswith(("http://", "https://")):
                raise ValueError(f'{name} must begin with "https://"')
        for one in self.apprise:
            if "://" in one:
                raise ValueError("apprise names files that each hold one URL, since such a URL is a secret")
        if self.webhook_old_secret_file and not self.webhook_secret_file:
            raise ValueError("webhook_old_secret_file needs webhook_secret_file: the new one signs first")
        if self.escalate_command and self.escalate_after_seconds is None:
            raise ValueError('escalate_command needs escalate_after, such as "30m"')
        if self.mail_to and not (self.mail_from and self.smtp_host):
            raise ValueError("mail_to needs mail_from and smtp_host")
