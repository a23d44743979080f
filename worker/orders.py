"""What a keeper is told on its standard input: one JSON line with its validated settings, so that it needs no pydantic.

Times are seconds, sizes are bytes, None is "no limit". The line holds secrets (the database's URL, the environment of
the handler); it is never logged.
"""

import json
from dataclasses import asdict, dataclass, field
from typing import Any

from stoker.sql.target import Target

BASE_ENVIRONMENT = ("PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", "USER", "LOGNAME")
"""What every runner gets of the environment; a mode lists what it needs besides."""
_TIMER_SLACK_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class ModeOrders:
    """The one mode a worker serves.

    ``is_plain``: its program knows nothing of stoker and is told nothing; its exit status says how it went.
    """

    name: str
    handler: str = ""
    health: str = ""
    model: str = ""
    command: tuple[str, ...] = ()
    version: int = 1
    max_attempts: int = 5
    timeout: float | None = 600.0
    concurrency: int = 1
    side_effect: bool = False
    errors: str = "redacted"
    label: str = ""
    backoff_base: float = 2.0
    backoff_factor: float = 2.0
    backoff_cap: float = 300.0
    expected_seconds: float | None = None
    retry_on: tuple[str, ...] = ()
    fail_on: tuple[str, ...] = ()
    steps: tuple[str, ...] = ()
    environment: dict[str, str] | None = None
    is_plain: bool = False

    @property
    def kill_after(self) -> float | None:
        """Seconds after which a task is ended from outside; where several run at a time the runner cancels it before."""
        return self.timeout + 1.0 if self.timeout is not None and self.concurrency > 1 else self.timeout

    def secrets(self) -> dict[str, str]:
        """What of the environment the mode lists itself, and may be secret."""
        return {name: value for name, value in (self.environment or {}).items() if name not in BASE_ENVIRONMENT}


@dataclass(frozen=True, slots=True)
class Orders:
    """One worker's identity, its limits, and where its database is.

    ``modes``: all that are configured, with versions. ``task``: the only one it may take.
    """

    worker: str
    fire: int
    ordinal: int
    installation: str
    folder: str
    mode: ModeOrders
    target: Target
    task: int | None = None
    task_cap: int | None = 25
    wall_clock: float | None = 900.0
    lease: float = 30.0
    renew_every: float = 10.0
    grace: float = 10.0
    batch_time: float = 0.2
    batch_limit: int = 1000
    max_respawns: int = 5
    linger: float = 5.0
    output_limit: int = 64 * 1024
    result_limit: int = 1024 * 1024
    payload_limit: int = 1024 * 1024
    modes: dict[str, int] = field(default_factory=dict)

    def hello(self, nonce: str) -> dict[str, Any]:
        """The first line that a runner is told; ``nonce`` marks what it prints."""
        mode = self.mode
        timer = None if mode.timeout is None else mode.timeout + self.grace + _TIMER_SLACK_SECONDS
        return {
            "nonce": nonce,
            "handler": mode.handler,
            "health": mode.health,
            "model": mode.model,
            "folder": self.folder,
            "mode": mode.name,
            "installation": self.installation,
            "errors": mode.errors,
            "secret_names": sorted(mode.secrets()),
            "label": mode.label,
            "result_limit": self.result_limit,
            "payload_limit": self.payload_limit,
            "modes": self.modes,
            "timer_seconds": timer,
            "timeout": mode.timeout,
            "concurrency": mode.concurrency,
            "retry_on": mode.retry_on,
            "fail_on": mode.fail_on,
            "steps": mode.steps,
        }

    def to_json(self) -> str:
        """One line of JSON."""
        return json.dumps(asdict(self), separators=(",", ":"))

    @staticmethod
    def from_json(line: str) -> "Orders":
        """The orders in a line that ``to_json`` made."""
        given: dict[str, Any] = json.loads(line)
        mode: dict[str, Any] = given.pop("mode")
        for name in ("command", "retry_on", "fail_on", "steps"):
            mode[name] = tuple(mode[name])
        return Orders(mode=ModeOrders(**mode), target=Target(**given.pop("target")), **given)
