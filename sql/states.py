"""The states of a task and of a fire, and every move between them. Imports nothing.

docs/states.md draws the same tables and is tested against them.
"""

WAITING = "waiting"
QUEUED = "queued"
IN_PROGRESS = "in_progress"
HELD = "held"
OBSERVING = "observing"
UNKNOWN = "unknown"
DONE = "done"
FAILED = "failed"
CANCELLED = "cancelled"
EXPIRED = "expired"

TASK_STATES = (WAITING, QUEUED, IN_PROGRESS, HELD, OBSERVING, UNKNOWN, DONE, FAILED, CANCELLED, EXPIRED)
TERMINAL = frozenset({DONE, FAILED, CANCELLED, EXPIRED})

TASK_MOVES: dict[str, frozenset[str]] = {
    WAITING: frozenset({QUEUED, CANCELLED, EXPIRED}),
    QUEUED: frozenset({IN_PROGRESS, HELD, CANCELLED, EXPIRED}),
    IN_PROGRESS: frozenset({DONE, FAILED, QUEUED, OBSERVING, UNKNOWN, HELD, CANCELLED}),
    HELD: frozenset({QUEUED, FAILED, CANCELLED, EXPIRED}),
    OBSERVING: frozenset({DONE, FAILED, UNKNOWN, CANCELLED}),
    UNKNOWN: frozenset({DONE, FAILED, QUEUED, CANCELLED}),
    DONE: frozenset(),
    FAILED: frozenset({QUEUED}),
    CANCELLED: frozenset({QUEUED}),
    EXPIRED: frozenset(),
}

OPEN = "open"
CLOSING = "closing"
CLOSED = "closed"
REFUSED = "refused"

FIRE_STATES = (OPEN, CLOSING, CLOSED, REFUSED)
FIRE_MOVES: dict[str, frozenset[str]] = {
    OPEN: frozenset({CLOSING}),
    CLOSING: frozenset({CLOSED}),
    CLOSED: frozenset(),
    REFUSED: frozenset(),
}


def may_move(moves: dict[str, frozenset[str]], before: str, after: str) -> bool:
    """Whether ``moves`` lets a thing in state ``before`` go to ``after``."""
    return after in moves[before]
