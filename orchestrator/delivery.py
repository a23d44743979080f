"""Sends what stands in the outbox: each channel on its own, one message at a time, outside any transaction.

1. take the channel, under a lease, and let what has waited for too long become one message;
2. try to send the next message, within the channel's time;
3. record how that went: delivered, to be tried again after a rest, or dead.

Who dies between 2 and 3 leaves a message in doubt: when the lease is over it is sent again, with the same delivery id.
"""

import math
import os
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from stoker.hygiene.restored import installation_of
from stoker.orchestrator.channels import sender
from stoker.orchestrator.config import Config
from stoker.orchestrator.logs import log
from stoker.orchestrator.message import Message, NotSentError, of_digest, of_note, of_test
from stoker.orchestrator.notify_settings import NotifySettings
from stoker.sql.database import Database, DatabaseUnreachableError, StatementError, Transaction
from stoker.worker.backoff import Backoff

_TO_RECORD_SECONDS = 30.0
_TO_END_SECONDS = 1.0
_SHORTEST_SECONDS = 0.2
_LISTED = 50
_REASON_LENGTH = 400


@dataclass(frozen=True, slots=True)
class Taken:
    """A message that this process sends by a channel it holds; ``was_in_doubt``: an earlier try may have been received."""

    channel: str
    token: str
    number: int
    delivery_id: str
    attempts: int
    was_in_doubt: bool
    failures: int
    message: Callable[[], Message]


class Delivery:
    """Sends by the channels of one configuration. A channel that hangs holds back nobody but itself."""

    def __init__(
        self, database: Database, config: Config, environ: Mapping[str, str], *, within_seconds: float = math.inf
    ) -> None:
        """``within_seconds``: then it is over, for who cannot stay: a try is cut short, and none begins later."""
        self._until = time.monotonic() + within_seconds
        self._database = database
        self._config = config
        self._is_off = environ.get("STOKER_ENABLED", "").lower() in ("false", "0", "no")
        self._threads: dict[str, threading.Thread] = {}
        self._lock = threading.Lock()
        self._sent = 0

    def work(self, wait_seconds: float) -> int:
        """Send what is due, each channel in a thread of its own; wait for them so long at most; how many went out by then.

        Raises RestoredError: what a dump takes for waiting was perhaps sent since it was made.
        """
        if self._is_off or not self._config.notify:
            return 0
        installation_of(self._database)
        before, deadline = self._sent, time.monotonic() + wait_seconds
        self._database.run("enter_channels", channels=list(self._config.notify))
        for name, settings in self._config.notify.items():
            if name not in self._threads or not self._threads[name].is_alive():
                self._threads[name] = threading.Thread(target=self._serve, args=(name, settings), name=name, daemon=True)
                self._threads[name].start()
        self.wait(deadline - time.monotonic())
        return self._sent - before

    def wait(self, seconds: float) -> None:
        """Until every channel has done what it can, so long at most."""
        deadline = time.monotonic() + seconds
        for thread in self._threads.values():
            thread.join(max(0.0, deadline - time.monotonic()))

    def _serve(self, name: str, settings: NotifySettings) -> None:
        """Send by one channel until nothing is due there."""
        try:
            while self._deliver(name, settings):
                with self._lock:
                    self._sent += 1
        except (DatabaseUnreachableError, StatementError) as error:
            log("delivery", "warning", channel=name, reason=str(error)[:_REASON_LENGTH])

    def _deliver(self, name: str, settings: NotifySettings) -> bool:
        """One message; whether it went out."""
        seconds = min(settings.timeout_seconds, self._until - time.monotonic())
        if seconds < _SHORTEST_SECONDS:
            return False
        token = str(uuid.uuid4())
        lease = settings.timeout_seconds + _TO_RECORD_SECONDS
        stale = self._config.delivery.collapse_after_seconds
        taken = self._database.in_transaction(lambda tx: _take(tx, name, token, lease, stale), repeatable=True)
        if taken is None:
            return False
        try:
            remark = attempt(settings, self._config, taken.message, seconds)
        except NotSentError as error:
            self._refused(taken, error)
            return False
        facts = {"channel": taken.channel, "message": taken.number, "token": taken.token}
        self._database.run("record_sent", **facts, remark=remark)
        log("delivered", channel=name, message=taken.number, delivery_id=taken.delivery_id)
        return True

    def _refused(self, taken: Taken, error: NotSentError) -> None:
        delivery = self._config.delivery
        is_dead = error.permanent or taken.attempts >= delivery.max_attempts
        rest = Backoff(delivery.backoff_base_seconds, 2.0, delivery.backoff_cap_seconds).jittered(taken.failures + 1)
        self._database.run(
            "record_refused",
            channel=taken.channel,
            message=taken.number,
            token=taken.token,
            state="dead" if is_dead else "queued",
            rest=None if is_dead else max(rest, error.rest or 0.0),
            in_doubt=error.in_doubt or taken.was_in_doubt,
            error=str(error),
        )
        level = "error" if is_dead else "warning"
        log("not delivered", level, channel=taken.channel, message=taken.number, reason=str(error), dead=is_dead)


def deliver_note(database: Database, config: Config, environ: Mapping[str, str], fire: int) -> bool:
    """Send what is due for ``[delivery] fire_wait``; False, and said so, when the fire's note was not received everywhere."""
    wait = config.delivery.fire_wait_seconds
    try:
        Delivery(database, config, environ, within_seconds=wait).work(wait + _TO_END_SECONDS if wait else 0.0)
        missing = database.run("undelivered_of", fire=fire)
    except (DatabaseUnreachableError, StatementError) as error:  # the note is written: whoever comes next sends it
        log("note not delivered yet", "warning", fire=fire, reason=str(error)[:_REASON_LENGTH])
        return False
    for channel, state, why in missing:
        log("note not delivered yet", "warning", fire=fire, channel=channel, state=state, reason=why)
    return not missing


def attempt(settings: NotifySettings, config: Config, message: Callable[[], Message], seconds: float) -> str | None:
    """One try to send ``message``, within ``seconds``. Raises NotSentError, whatever went wrong."""
    try:
        made = message()
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise NotSentError(f"{type(error).__name__}: its note cannot be rendered", permanent=True) from None
    try:
        return sender(settings.kind)(settings, config.folder, made, seconds)
    except NotSentError:
        raise
    except Exception as error:  # noqa: BLE001 - whatever a channel's library raises, the message stays to be sent
        raise NotSentError(f"{type(error).__name__} in the channel", in_doubt=True) from None


def send_test(config: Config, name: str) -> str:
    """A message, marked as a test, by one channel, past the outbox; its delivery id. Raises NotSentError."""
    message = of_test(str(uuid.uuid4()), name, os.uname().nodename)
    attempt(config.notify[name], config, lambda: message, config.notify[name].timeout_seconds)
    return message.delivery_id


def _take(tx: Transaction, channel: str, token: str, lease: float, stale: float) -> Taken | None:
    """Take the channel, then, in later statements, the message that is next by it."""
    for (failures,) in tx.run("take_channel", channel=channel, token=token, lease=lease):
        tx.run("collapse_stale", channel=channel, stale=stale)
        for number, delivery_id, kind, fire, attempts, was_in_doubt, seconds in tx.run("pick_message", channel=channel):
            message = _read(tx, number, str(delivery_id), kind, fire, seconds)
            return Taken(channel, token, number, str(delivery_id), attempts, was_in_doubt, failures, message)
        tx.run("free_channel", channel=channel, token=token)
    return None


def _read(tx: Transaction, number: int, delivery_id: str, kind: str, fire: int | None, seconds: float) -> Callable[[], Message]:
    """What the message is made of; it is made later, so that one that cannot be made harms no other."""
    if kind == "note":
        ((_, _, facts, _),) = tx.run("find_note", fire=fire)
        return lambda: of_note(delivery_id, facts, seconds)
    rows = tx.run("list_collapsed", message=number, limit=_LISTED)
    return lambda: of_digest(delivery_id, [row[:4] for row in rows], rows[0][4] if rows else 0, seconds)
