"""Who holds what admission waits for, when it waits in vain: mostly a session that forgot to end its transaction."""

from collections.abc import Iterator
from contextlib import contextmanager

from stoker.sql.database import Database, DatabaseUnreachableError, LockHeldError


class LaneHeldError(DatabaseUnreachableError):
    """Admission needs a row that another session has locked; the text says whose, since when, and what to do."""


@contextmanager
def named(database: Database) -> Iterator[None]:
    """Raises LaneHeldError where the lock alone would have been complained of."""
    try:
        yield
    except LockHeldError:
        raise LaneHeldError(_words(database)) from None


def _words(database: Database) -> str:
    for pid, name, state, since in database.run("find_holder"):
        by = f"session {pid} ({name})" if name else f"session {pid}"
        told = f" since {since} UTC" if since else ""
        doing = f", {state}" if state else ""
        return (
            f"the lane is held by {by}{told}{doing}: no fire can open until that transaction ends."
            f" To end it: select pg_terminate_backend({pid})"
        )
    return "the lane was held by another session, which has let it go by now; try again"
