"""What an attempt that did not succeed makes of its task. Pure: entries in, verdicts out."""

from stoker.worker.backoff import Backoff
from stoker.worker.book import BACK, CANCELLED, FAILED, RETRY, UNKNOWN, Entry
from stoker.worker.limits import TIMEOUT
from stoker.worker.orders import ModeOrders

WORKER_LOST = "worker lost"


def judge(entry: Entry, mode: ModeOrders) -> None:
    """An attempt that is not done: is its task failed, tried again, or, for a side effect that raised, unknown.

    What the handler said of it stands. What is called off is not tried again, unless nobody knows what it did.
    """
    if entry.verdict == FAILED and not entry.is_permanent:
        if mode.side_effect and not entry.is_retriable:
            entry.verdict = UNKNOWN
        elif entry.attempt < entry.max_attempts:
            entry.verdict = RETRY
    elif entry.verdict == RETRY and entry.attempt >= entry.max_attempts:
        entry.verdict, entry.error_kind = FAILED, "attempts spent"
        entry.error = entry.error or f"asked for a retry in attempt {entry.attempt} of {entry.max_attempts}"
    if entry.is_called_off and entry.verdict not in (UNKNOWN, BACK):
        entry.verdict, entry.error_kind = CANCELLED, CANCELLED
    if entry.verdict == RETRY and entry.delay is None:
        entry.delay = Backoff(mode.backoff_base, mode.backoff_factor, mode.backoff_cap).jittered(entry.attempt)


def charge(entry: Entry, seconds: float, killed_for: str, how: str, mode: ModeOrders) -> None:
    """A task that had run for ``seconds`` when its runner ended: by a limit of ours (``killed_for``), or by itself (``how``).

    What merely ran beside a task that exceeded its timeout is not charged.
    """
    if killed_for == TIMEOUT and seconds <= (mode.timeout or 0.0):
        entry.verdict = BACK
        return
    kind = killed_for or WORKER_LOST
    text = f"ran longer than {mode.timeout:g} s" if kind == TIMEOUT and mode.timeout is not None else f"{kind} ({how})"
    entry.verdict, entry.error_kind, entry.error = FAILED, kind, text
    judge(entry, mode)
