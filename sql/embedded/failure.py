"""The ways in which the embedded server can fail; each text says what happened and what to do."""


class EmbeddedServerError(Exception):
    """The embedded server cannot be used."""


class NoBinariesError(EmbeddedServerError):
    """No PostgreSQL that fits is installed."""


class ServerStartError(EmbeddedServerError):
    """The server could not be started or does not answer; the text ends with the last lines of its log."""


class ServerStopError(EmbeddedServerError):
    """The server did not end, or could not be told from a stranger; nothing more was signalled."""
