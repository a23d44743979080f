"""The messages that a note becomes: one a channel, in the transaction that writes it. Sending them is the orchestrator's.

The channels are those that the fire's own host had when the fire opened: whoever closes it, on whichever host, posts the same.
"""

from typing import Any

from stoker.sql.database import Database, Transaction
from stoker.sql.units import format_duration

LONG_SECONDS = 3600.0
ALWAYS, PROBLEMS = "always", "problems"
_NORMAL, _RESTORED = "normal", "restored"
_NAMES = ("channel", "waiting", "failing", "dead", "held", "oldest", "error")


def post_note(tx: Transaction, facts: dict[str, Any]) -> None:
    """A message for each channel that wants this note; after a restore they wait until a person lets them go."""
    ((channels,),) = tx.run("fire_channels", fire=facts["fire"])
    wanted = [name for name, send in channels.items() if send == ALWAYS or is_problem(facts)]
    if wanted:
        state = "held" if facts["ended"] == _RESTORED else "queued"
        tx.run("post_note", fire=facts["fire"], channels=wanted, state=state)


def is_problem(facts: dict[str, Any]) -> bool:
    """Whether a note tells of anything but plain success: something needs a person, failed, was lost, or was cut short."""
    modes = facts["modes"]
    bad = any(mode.get(name, 0) for mode in modes for name in ("failed", "unknown", "expired"))
    done = any(mode.get("done", 0) for mode in modes)
    hollow = not done and any(mode.get("left", 0) for mode in modes)
    return bool(facts["needs"] or facts["workers"]["lost"] or bad or hollow or facts["ended"] != _NORMAL)


def undelivered(database: Database | Transaction) -> list[dict[str, Any]]:
    """By channel, what waits to be delivered, or is given up, or held; ``oldest`` in seconds."""
    return [dict(zip(_NAMES, row, strict=True)) for row in database.run("outbox_counts")]


def is_stuck(one: dict[str, Any]) -> bool:
    """Whether what is undelivered by a channel needs a person: also when nobody has tried for an hour, as without a channel."""
    return bool(one["failing"] or one["dead"] or one["held"] or one["oldest"] > LONG_SECONDS)


def undelivered_words(one: dict[str, Any]) -> str:
    """The same of one channel, for people."""
    counts = (("waiting", "wait"), ("dead", "could not be delivered"), ("held", "held after a restore"))
    words = ", ".join(f"{one[name]:,} {text}" for name, text in counts if one[name])
    if one["waiting"] and one["oldest"] > LONG_SECONDS:
        words += f", the oldest for {format_duration(one['oldest'] // 60 * 60)}"
    return f"Messages by {one['channel']}: {words}" + (f"; last: {one['error']}" if one["error"] else "")


def unknown_channel(name: str) -> str:
    """What to do about messages by a channel that is not configured here."""
    return (
        "No channel of this name is configured here: if no other host has it, put it back,"
        f" or give them up: stoker outbox drop --channel {name} --reason TEXT"
    )
