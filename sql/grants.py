"""What a role gets that fires, works, delivers and watches, and owns nothing: rows, but no tables.

Each statement names the schema and the role, so they are made here; both are quoted.
"""

import psycopg

from stoker.sql.database import Database
from stoker.sql.query import quote_identifier

_STATEMENTS = (
    "grant usage on schema {schema} to {role}",
    "grant select, insert, update, delete on all tables in schema {schema} to {role}",
    "revoke insert, update, delete on {schema}.migrations from {role}",
    "grant usage, select, update on all sequences in schema {schema} to {role}",
    "grant execute on all functions in schema {schema} to {role}",
    "alter default privileges in schema {schema} grant select, insert, update, delete on tables to {role}",
    "alter default privileges in schema {schema} grant usage, select, update on sequences to {role}",
    "alter default privileges in schema {schema} grant execute on functions to {role}",
)


class GrantError(Exception):
    """The rights could not be given; none was. The text says why."""


def script(role: str, schema: str) -> str:
    """The statements, for psql."""
    return "".join(f"{statement};\n" for statement in _statements(role, schema)).rstrip()


def grant(database: Database, role: str) -> None:
    """Run them, all or none. What a later migration adds is granted as well, if the same owner runs it. Raises GrantError."""
    try:
        with database.raw() as connection, connection.transaction():
            ((owns,),) = connection.execute(
                "select pg_has_role(n.nspowner, 'usage') from pg_namespace n where n.nspname = %s", (database.target.schema,)
            ).fetchall()
            if not owns:
                raise GrantError(f"the schema {database.target.schema} is another role's; run this as its owner")
            for statement in _statements(role, database.target.schema):
                connection.execute(statement.encode())
    except psycopg.errors.UndefinedObject:
        raise GrantError(f"there is no role {role!r}; make it first: create role {quote_identifier(role)} login") from None
    except psycopg.errors.InsufficientPrivilege as error:
        raise GrantError(f"{error.diag.message_primary}; run this as the owner of the tables") from None


def _statements(role: str, schema: str) -> list[str]:
    names = {"schema": quote_identifier(schema), "role": quote_identifier(role)}
    return [statement.format(**names) for statement in _STATEMENTS]
