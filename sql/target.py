"""Where the database is and how to speak to it; knows no driver, so that a process can be told before it imports one."""

from dataclasses import dataclass

_BY_INDEX = {
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "plan_cache_mode": "force_generic_plan",
}
"""Rows are reached by index, one after the other, whatever the statistics say: they are always late for a queue."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where the database is and how to speak to it; times in seconds."""

    url: str
    schema: str = "stoker"
    connect_timeout: float = 5.0
    statement_timeout: float = 30.0
    lock_timeout: float = 5.0
    prepared_statements: bool = True
    pipeline: bool = True
    session_options: bool = True

    def options(self, *, by_index: bool = False) -> str:
        """Startup options that bound every wait on the server, and its choice of plans; empty for a pooler that takes none."""
        if not self.session_options:
            return ""
        bounds = {
            "statement_timeout": int(self.statement_timeout * 1000),
            "lock_timeout": int(self.lock_timeout * 1000),
            "idle_in_transaction_session_timeout": int(self.statement_timeout * 1000),
            "jit": "off",
            "search_path": "pg_catalog",
            **(_BY_INDEX if by_index else {}),
        }
        return " ".join(f"-c {key}={value}" for key, value in bounds.items())
