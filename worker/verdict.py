"""What an attempt that did not succeed makes of its task. Pure: entries in, verdicts out."""

from stoker.worker.backoff import Backoff
from stoker.worker.book import FAILED, RETRY, UNKNOWN, Entry
from stoker.worker.limits import TIMEOUT
from stoker.worker.orders import ModeOrders

WORKER_LOST = "worker lost"


def judge(entry: Entry, mode: ModeOrders) -> None:
    """A failed attempt: is the task failed, tried again, or, for a side effect, unknown."""
    if entry.is_permanent:
        return
    if mode.side_effect and not entry.is_retriable:
        entry.verdict = UNKNOWN
    elif entry.attempt < entry.max_attempts:
        backoff = Backoff(mode.backoff_base, mode.backoff_factor, mode.backoff_cap)
        entry.verdict, entry.delay = RETRY, backoff.jittered(entry.attempt)


def charge(entry: Entry, killed_for: str, how: str, mode: ModeOrders) -> None:
    """The task that ran when its runner ended: by a limit of ours (``killed_for``), or by itself (``how``)."""
    kind = killed_for or WORKER_LOST
    text = f"ran longer than {mode.timeout:g} s" if kind == TIMEOUT and mode.timeout is not None else f"{kind} ({how})"
    entry.verdict, entry.error_kind, entry.error = FAILED, kind, text
    judge(entry, mode)
