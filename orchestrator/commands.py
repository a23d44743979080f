"""The commands of ``stoker``, put together. Each imports what it needs when it is called."""

import sys
from typing import Annotated, Optional

import typer

from stoker.orchestrator import (
    cli_database,
    cli_enqueue,
    cli_fire,
    cli_gate,
    cli_import,
    cli_inspect,
    cli_modes,
    cli_outbox,
    cli_ready,
    cli_restored,
    cli_run,
    cli_slots,
    cli_tasks,
    cli_wrap,
)
from stoker.orchestrator.session import Session

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


cli_enqueue.add_to(app)
cli_import.add_to(app)
cli_fire.add_to(app)
cli_inspect.add_to(app)
cli_slots.add_to(app)
cli_gate.add_to(app)
cli_run.add_to(app)
cli_ready.add_to(app)
cli_wrap.add_to(app)
cli_tasks.add_to(app)
cli_modes.add_to(app)
cli_outbox.add_to(app)
cli_restored.add_to(app)
cli_database.add_to(app)
