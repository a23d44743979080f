"""``stoker migrate`` and ``stoker db start|stop|url|psql|grants|environment``."""

import os
import shutil
from typing import Annotated, Optional

import typer

from stoker.orchestrator.session import Session, UsageError, say

db = typer.Typer(
    no_args_is_help=True,
    help="The database: the embedded PostgreSQL beside config.toml, and whose work it holds.",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def add_to(app: typer.Typer) -> None:
    """Add these commands to the command line."""
    app.command()(migrate)
    app.add_typer(db, name="db")


def migrate(
    context: typer.Context,
    sql: Annotated[bool, typer.Option("--sql", help="Print what would be run instead of running it.")] = False,
) -> None:
    """Bring the schema to the version that this stoker needs; forward only, each step in one transaction.

    stoker migrate --sql        what would be run
    """
    from stoker.orchestrator.tell import tell_modes
    from stoker.sql.database import connect
    from stoker.sql.migrate import migrate as apply
    from stoker.sql.migrate import preview, version

    target = context.obj.target()
    if sql:
        with connect(target) as connection:
            say(preview(version(connection, target.schema), target.schema))
        return
    applied = apply(target.url, target.schema, lock_timeout=target.lock_timeout)
    for name in applied:
        say(f"applied {name}")
    tell_modes(context.obj.database, context.obj.config)
    say(f"schema {target.schema} is up to date")


@db.command()
def start(context: typer.Context) -> None:
    """Start the server, if it does not run; it stays up until stoker db stop."""
    say(_embedded(context.obj).url())


@db.command()
def stop(context: typer.Context) -> None:
    """Stop the server."""
    from stoker.sql import embedded

    stopped = embedded.stop(_embedded(context.obj).home)
    say("stopped" if stopped else "was not running")


@db.command()
def url(context: typer.Context) -> None:
    """The server's URL, for any client; it is started if it does not run."""
    say(_embedded(context.obj).url())


@db.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def psql(context: typer.Context) -> None:
    """Open psql on the database; further arguments go to psql: stoker db psql -c 'select 1'."""
    session: Session = context.obj
    where = session.url()
    program = _psql()
    if program is None:
        raise UsageError("psql is not installed here")
    arguments = [program, *([where] if where else []), *context.args]
    os.execv(program, arguments)  # noqa: S606 - becomes psql


@db.command()
def grants(
    context: typer.Context,
    role: Annotated[str, typer.Argument(help="The role that fires, works, delivers and watches, and owns nothing.")],
    sql: Annotated[bool, typer.Option("--sql", help="Print what would be run instead of running it.")] = False,
) -> None:
    """Let a role do everything but change the tables: stoker db grants stoker_run, as their owner, after stoker migrate."""
    from stoker.sql.grants import GrantError, grant, script

    session: Session = context.obj
    if sql:
        say(script(role, session.config.database.schema_name))
        return
    try:
        grant(session.database, role)
    except GrantError as error:
        raise UsageError(str(error)) from None
    say(f"{role} may fire, work, deliver and watch in schema {session.database.target.schema}; it may not change its tables")


@db.command()
def environment(
    context: typer.Context,
    name: Annotated[Optional[str], typer.Argument(help='Its new name; "" takes it away.')] = None,  # noqa: UP045
    reason: Annotated[str, typer.Option(help="Why, for everybody.")] = "",
    by: Annotated[Optional[str], typer.Option(help="Who; default: the user of this machine.")] = None,  # noqa: UP045
) -> None:
    """Whose work the schema holds, or from now on: stoker db environment testnet --reason "a copy for trials"."""
    from stoker.orchestrator.cli_moves import actor
    from stoker.sql.environment import environment_of
    from stoker.sql.settings import ENVIRONMENT

    database = context.obj.connected
    if name and not ENVIRONMENT.fullmatch(name):
        raise UsageError("an environment's name is 1 to 63 characters of a-z A-Z 0-9 _ . -")
    if name is not None:
        if not reason.strip():
            raise UsageError("say why, for those whose processes will refuse to start: --reason TEXT")
        database.run("rename_environment", name=name, actor=actor(by), reason=reason)
    say(environment_of(database) or "(no name)")


def _psql() -> str | None:
    """The psql that comes with the embedded server, else the system's."""
    from stoker.sql import embedded

    try:
        beside = embedded.find_binaries().psql
    except embedded.EmbeddedServerError:
        return shutil.which("psql")
    return str(beside) if beside.exists() else shutil.which("psql")


def _embedded(session: Session) -> Session:
    if not session.config.embedded:
        raise UsageError("a database is configured ([database] url or PG*); the embedded server is not used")
    return session
