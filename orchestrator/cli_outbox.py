"""``stoker outbox``, ``stoker deliver`` and ``stoker notify test``: the messages that notes become, and their channels."""

import os
from typing import Annotated, Any, Optional

import typer

from stoker.orchestrator.cli_moves import actor
from stoker.orchestrator.session import Session, UsageError, say, say_json, say_table

_HELP = {"help_option_names": ["-h", "--help"]}
outbox = typer.Typer(help="What is to be delivered, and what could not be.", context_settings=_HELP)
notify = typer.Typer(no_args_is_help=True, help="The channels of [notify.NAME].", context_settings=_HELP)

Json = Annotated[bool, typer.Option("--json", help="JSON, for programs.")]
Reason = Annotated[Optional[str], typer.Option(help="Why, for stoker events.")]  # noqa: UP045
By = Annotated[Optional[str], typer.Option(help="Who; default: the user of this system.")]  # noqa: UP045
_NAMES = (
    "message", "delivery_id", "kind", "channel", "fire", "state", "created_at", "state_at", "attempts", "in_doubt",
    "error", "retry_at", "is_being_sent", "fires",
)  # fmt: skip
_TO_END_SECONDS = 5.0


def add_to(app: typer.Typer) -> None:
    """Add these commands to the command line."""
    app.command()(deliver)
    app.add_typer(outbox, name="outbox")
    app.add_typer(notify, name="notify")


def deliver(context: typer.Context) -> None:
    """Send what is due by every channel, once, and exit; for cron where stoker run does not stand by.

    In cron: * * * * *  cd /srv/shop && stoker deliver
    """
    from stoker.orchestrator.delivery import Delivery

    session: Session = context.obj
    channels = session.config.notify
    if not channels:
        raise UsageError("no [notify.NAME] is configured")
    longest = max(one.timeout_seconds for one in channels.values())
    sent = Delivery(session.database, session.config, os.environ).work(longest + _TO_END_SECONDS)
    say(f"delivered {sent} message(s)")


@outbox.callback(invoke_without_command=True)
def outbox_(context: typer.Context) -> None:
    """What is to be delivered, and what could not be: stoker outbox."""
    if context.invoked_subcommand is None:
        outbox_ls(context)


@outbox.command("ls")
def outbox_ls(
    context: typer.Context,
    state: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(help="Only queued, delivered, dead, held, collapsed or dropped."),
    ] = None,
    channel: Annotated[Optional[str], typer.Option(help="Only of this channel.")] = None,  # noqa: UP045
    limit: Annotated[int, typer.Option(min=0, help="At most so many.")] = 20,
    as_json: Json = False,
) -> None:
    """Messages, newest first: stoker outbox ls --state dead."""
    session: Session = context.obj
    found = session.database.run("list_outbox", state=state, channel=channel, limit=limit)
    rows: list[dict[str, Any]] = [dict(zip(_NAMES, row, strict=True)) for row in found]
    if as_json:
        say_json(rows)
        return
    table = []
    for row in rows:
        fires = row["fire"] or ", ".join(str(fire) for fire in row["fires"] or ())
        at = row["retry_at"] if row["state"] == "queued" else row["state_at"]
        state_words = "being sent" if row["state"] == "queued" and row["is_being_sent"] else row["state"]
        known = row["channel"] in session.config.notify or row["state"] != "queued"
        why = row["error"] if known else "no channel of this name is configured here"
        table.append((row["message"], row["channel"], row["kind"], fires, state_words, at, row["attempts"], why))
    say_table(("message", "channel", "kind", "fire", "state", "at, or not before", "tries", "last error"), table)


@outbox.command("retry")
def outbox_retry(
    context: typer.Context,
    messages: Annotated[Optional[list[int]], typer.Argument(help="Their numbers.")] = None,  # noqa: UP045
    all_dead: Annotated[bool, typer.Option("--all-dead", help="All that were given up.")] = False,
    all_held: Annotated[bool, typer.Option("--all-held", help="All that are held after a restore.")] = False,
    reason: Reason = None,
    by: By = None,
    as_json: Json = False,
) -> None:
    """Queue messages again that are dead or held, or try waiting ones at once: stoker outbox retry 17, or --all-dead."""
    states = [name for name, wanted in (("dead", all_dead), ("held", all_held)) if wanted]
    if not messages and not states:
        raise UsageError("give numbers (see: stoker outbox), --all-dead or --all-held")
    moved = context.obj.database.run(
        "retry_messages", messages=list(messages or ()), states=states, actor=actor(by), reason=reason
    )
    numbers = [number for (number,) in moved]
    missing = sorted(set(messages or ()) - set(numbers))
    if as_json:
        say_json({"queued": numbers, "not_moved": missing})
    else:
        say(f"queued again: {', '.join(map(str, numbers)) or 'none'}. Sent by stoker run, the next fire, or: stoker deliver")
    if missing:
        raise UsageError(f"neither waiting, dead nor held: {', '.join(map(str, missing))}")


@outbox.command("drop")
def outbox_drop(
    context: typer.Context,
    reason: Annotated[str, typer.Option(help="Why, for stoker events.")],
    message: Annotated[Optional[int], typer.Argument(help="Its number.")] = None,  # noqa: UP045
    channel: Annotated[Optional[str], typer.Option(help="All of this channel instead.")] = None,  # noqa: UP045
    by: By = None,
) -> None:
    """Give up what was not delivered; its note stays: stoker outbox drop 17 --reason "told by telephone", or --channel NAME."""
    if not reason.strip():
        raise UsageError("say why: --reason TEXT")
    if (message is None) == (channel is None):
        raise UsageError("give a number (see: stoker outbox), or --channel NAME")
    parameters = {"message": message, "channel": channel, "actor": actor(by), "reason": reason}
    dropped = [number for (number,) in context.obj.database.run("drop_message", **parameters)]
    if message is not None and not dropped:
        raise UsageError(f"message {message} is not there, or is over")
    say(f"dropped message {message}" if message is not None else f"dropped {len(dropped):,} message(s) by {channel}")


@notify.command("test")
def notify_test(context: typer.Context, channel: Annotated[str, typer.Argument(help="Its name.")]) -> None:
    """Send a message that is marked as a test by one channel, now: stoker notify test ops."""
    from stoker.orchestrator.delivery import send_test
    from stoker.orchestrator.message import NotSentError

    session: Session = context.obj
    channels = session.config.notify
    if channel not in channels:
        raise UsageError(f"no channel {channel!r}; configured: {', '.join(channels) or 'none'}")
    try:
        delivery_id = send_test(session.config, channel)
    except NotSentError as error:
        say(f"not sent by {channel}: {error}" + ("; it may have been received all the same" if error.in_doubt else ""))
        raise typer.Exit(1) from None
    say(f"sent by {channel}, delivery {delivery_id}")
