"""Which exit code a known failure has. What is not known here is an internal error, and shows its traceback."""

INTERNAL, USAGE, UNREACHABLE = 1, 2, 75
_DATA_EXCEPTION = "22"


def exit_code(error: Exception) -> int | None:
    """The exit code of a known failure; None for any other."""
    from stoker.hygiene.restored import RestoredError
    from stoker.orchestrator.config_errors import ConfigError
    from stoker.orchestrator.session import UsageError
    from stoker.sql.database import DatabaseUnreachableError, StatementError
    from stoker.sql.embedded import EmbeddedServerError
    from stoker.sql.enqueue import EnqueueError
    from stoker.sql.environment import EnvironmentMismatchError
    from stoker.sql.migrate import MigrationError, SchemaVersionError

    match error:
        case ConfigError() | UsageError() | EnqueueError():
            return USAGE
        case SchemaVersionError() | RestoredError() | EnvironmentMismatchError():
            return USAGE
        case DatabaseUnreachableError() | EmbeddedServerError():
            return UNREACHABLE
        case StatementError() if (error.sqlstate or "").startswith(_DATA_EXCEPTION):
            return USAGE
        case MigrationError() | StatementError() | OSError():
            return INTERNAL
        case _:
            return None


def message(error: Exception) -> str:
    """What is said of a known failure: one clear sentence, without what the driver adds."""
    from stoker.sql.database import StatementError

    if isinstance(error, StatementError):
        words = str(error).splitlines()[0] if str(error) else type(error).__name__
        is_input = (error.sqlstate or "").startswith(_DATA_EXCEPTION)
        return f"a number or text is out of range: {words}" if is_input else f"the database refused: {words}"
    if isinstance(error, OSError) and error.errno is not None:
        return f"{error.strerror}: the result could not be written; what was asked may have been done"
    return str(error)
