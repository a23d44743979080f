"""What the database is told of a configuration, so that ``stoker.enqueue`` refuses what nobody here would run."""

from stoker.orchestrator.config import Config
from stoker.sql.database import Database, StatementError

_NO_RIGHT = "42501"
_INTEGER_MAX = 2**31 - 1


def tell_modes(database: Database, config: Config) -> None:
    """Let the database know what is configured, for ``stoker.enqueue``; a role that may not write it leaves it as it is."""
    parameters = {
        "modes": list(config.modes),
        "versions": [mode.version for mode in config.modes.values()],
        "payload_limit": min(config.queue.payload_limit_bytes, _INTEGER_MAX),
    }
    try:
        database.run("see_modes", **parameters)
    except StatementError as error:
        if error.sqlstate != _NO_RIGHT:
            raise
