"""The command line. Results go to standard output, everything else to standard error.

Exit codes: 0 done; 1 internal error; 2 usage or configuration; 75 database unreachable; 130/143 ended by a signal; with
``fire --exit-code`` also 10 some tasks failed, 11 refused.
"""

import io
import os
import sys
from typing import Annotated, Optional

import typer

from stoker.orchestrator import cli_database, cli_fire, cli_inspect, cli_queue
from stoker.orchestrator.session import Session

INTERNAL, USAGE, UNREACHABLE = 1, 2, 75

app = typer.Typer(
    name="stoker",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    help="A batch runner on PostgreSQL: a fire cleans up, decides, fans out workers, waits, and writes one note.",
    epilog='Start here: stoker init, stoker enqueue hello \'{"name": "world"}\', stoker fire',
)


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        sys.stdout.write(f"stoker {version('stoker')}\n")
        raise typer.Exit


@app.callback()
def stoker(
    context: typer.Context,
    config: Annotated[
        Optional[str], typer.Option("--config", "-c", help="config.toml to use; default: the nearest one upwards.")  # noqa: UP045
    ] = None,
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")] = False,  # noqa: ARG001
) -> None:
    """Keep where the configuration is; it is read when a command needs it."""
    context.obj = Session(config)


cli_queue.add_to(app)
cli_fire.add_to(app)
cli_inspect.add_to(app)
cli_database.add_to(app)


def main() -> None:
    """Run the command line; every known failure has its exit code and one clear message."""
    from stoker.orchestrator.failures import exit_code, message

    _open_standard_streams()
    if any(_is_no_text(argument) for argument in sys.argv):
        sys.stderr.write("stoker: an argument is not UTF-8\n")
        sys.exit(USAGE)
    try:
        app()
    except KeyboardInterrupt:
        sys.exit(130)
    except Exception as error:
        code = exit_code(error)
        if code is None:
            raise
        sys.stderr.write(f"stoker: {message(error)}\n")
        sys.exit(code)
    finally:
        _let_readers_go()


def _let_readers_go() -> None:
    """Whoever read the results may be gone: the interpreter must not complain when it flushes at its end."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _open_standard_streams() -> None:
    """A command started with a closed stream gets an empty one, so that nothing else takes its place."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115, PTH123 - stays open
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _is_no_text(argument: str) -> bool:
    try:
        argument.encode()
    except UnicodeEncodeError:
        return True
    return False


if __name__ == "__main__":
    main()
