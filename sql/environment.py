"""Whose work a schema holds, such as "mainnet" or "testnet": said once, and then a condition of every connection."""

from stoker.sql.database import Database


class EnvironmentMismatchError(Exception):
    """The schema is another environment's than the configuration says."""

    def __init__(self, schema: str, known: str, named: str) -> None:
        self.known = known
        mine = f"this configuration says {named!r}" if named else "this configuration names none"
        super().__init__(
            f"schema {schema!r} belongs to environment {known!r}, {mine} ([database] environment). Nothing was done."
            f" If the database is the right one: write {known!r} there, or stoker db environment NAME --reason WHY"
        )


def check_environment(database: Database, name: str, *, first: bool = True) -> None:
    """Raises EnvironmentMismatchError unless the schema is that environment's; the ``first`` to name one keeps it."""
    known = environment_of(database)
    if known is None and name and first:
        database.run("name_environment", name=name)
        known = environment_of(database)
    if known is not None and known != name:
        raise EnvironmentMismatchError(database.target.schema, known, name)


def environment_of(database: Database) -> str | None:
    """Whose the schema is; None as long as nobody has said it."""
    ((_, _, _, known),) = database.run("installation")
    return known if known is None else str(known)
