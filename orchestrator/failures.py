"""Which exit code a known failure has. What is not known here is an internal error, and shows its traceback."""

INTERNAL, USAGE, UNREACHABLE = 1, 2, 75


def exit_code(error: Exception) -> int | None:
    """The exit code of a known failure; None for any other."""
    from stoker.orchestrator.config_errors import ConfigError
    from stoker.orchestrator.session import UsageError
    from stoker.sql.database import DatabaseUnreachableError, StatementError
    from stoker.sql.embedded import EmbeddedServerError
    from stoker.sql.enqueue import EnqueueError
    from stoker.sql.migrate import MigrationError, SchemaVersionError

    match error:
        case ConfigError() | UsageError() | EnqueueError() | SchemaVersionError():
            return USAGE
        case DatabaseUnreachableError() | EmbeddedServerError():
            return UNREACHABLE
        case MigrationError() | StatementError():
            return INTERNAL
        case _:
            return None
