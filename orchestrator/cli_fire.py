"""``stoker plan``, ``fire``, ``sweep`` and ``note``."""

from dataclasses import asdict
from typing import Annotated, Optional

import typer

from stoker.orchestrator.cli_modes import paused
from stoker.orchestrator.fire_command import Options, facts_of, known, run, show, show_note
from stoker.orchestrator.session import Session, say, say_json, say_table

Json = Annotated[bool, typer.Option("--json", help="JSON, for programs.")]
Modes = Annotated[Optional[list[str]], typer.Option("--mode", "-m", help="Only this mode; may be repeated.")]  # noqa: UP045


def add_to(app: typer.Typer) -> None:
    """Add these commands to the command line."""
    for command in (plan, fire, sweep, note):
        app.command()(command)


ExitCode = Annotated[bool, typer.Option("--exit-code", help="Exit 10 if tasks failed, 11 if refused, 13 if not delivered.")]
Lane = Annotated[str, typer.Option(help="The lane: one fire a lane is active at a time, and the daily cap counts per lane.")]


def plan(context: typer.Context, mode: Modes = None, lane: Lane = "main", as_json: Json = False) -> None:
    """What a fire would do now, which ceiling would bind it, and whether it would be refused. Nothing is started.

    stoker plan --mode resize
    """
    from stoker.orchestrator import snapshot
    from stoker.orchestrator.admission import foresee
    from stoker.orchestrator.decide import decide
    from stoker.orchestrator.fire import interlocks
    from stoker.orchestrator.muster import ceilings

    session: Session = context.obj
    seen = snapshot.read(session.database, session.config, known(session, mode))
    made = decide(seen.backlogs, ceilings(session.config))
    refusal = foresee(session.database, lane, interlocks(session.config))
    if as_json:
        sums = {"workers": made.workers, "can_take": made.can_take, "unserved": seen.unserved, "refusal": refusal}
        say_json({**asdict(made), **sums, "paused": paused(session)})
        return
    rows = [(s.mode, s.backlog, s.workers, s.wanted, s.ceiling, _seconds(s.seconds_each)) for s in made.shares]
    say_table(("mode", "backlog", "workers", "wanted", "bound by", "a task takes"), rows)
    can_take = made.backlog if made.can_take is None else min(made.can_take, made.backlog)
    say(f"\n{made.workers} of {made.max_pool} workers, for {can_take:,} of {made.backlog:,} tasks; {made.ceiling} binds.")
    if refusal:
        say(f"A fire now would be refused: {refusal}.")
    for name, words in paused(session).items():
        say(f"{name} is {words}. To let it go on: stoker unpause {name}")
    for name, version, count in seen.unserved:
        say(f"{count:,} task(s) of mode {name}, payload version {version}: no configured mode runs them.")


def fire(
    context: typer.Context,
    mode: Modes = None,
    lane: Lane = "main",
    reason: Annotated[Optional[str], typer.Option(help="Why, for the note.")] = None,  # noqa: UP045
    exit_code: ExitCode = False,
    as_json: Json = False,
    schedule: Annotated[Optional[str], typer.Option(help="Only if a slot of this schedule is due.")] = None,  # noqa: UP045
    due: Annotated[bool, typer.Option("--due", help="Only for schedules of which a slot is due.")] = False,
) -> None:
    """Run one fire: clean up, decide, fan out, wait, write one note, and print it.

    stoker fire --reason "after the import"

    In cron: 0 7 * * *  cd /srv/shop && stoker fire

    With schedules: * * * * *  cd /srv/shop && stoker fire --due
    """
    options = Options(None, tuple(mode or ()), lane, reason, exit_code, as_json, schedule, due)
    raise typer.Exit(run(context.obj, options))


def sweep(context: typer.Context, as_json: Json = False) -> None:
    """Clean up after whatever died, without a fire; for cron between fires.

    In cron: */5 * * * *  cd /srv/shop && stoker sweep
    """
    from stoker.orchestrator.sweeping import sweep_now

    session: Session = context.obj
    facts = sweep_now(session.config, session.database)
    words = (
        f"closed {len(facts['fires_closed'])} fire(s), released {len(facts['workers_released'])} worker(s),"
        f" ended {len(facts['ghosts'])} ghost(s), promoted {facts['promoted']} span(s),"
        f" expired {facts['expired']} and cancelled {facts['cancelled']} task(s),"
        f" took out {facts['pruned']['tasks']:,} old task(s) and {facts['pruned']['partitions']} partition(s)"
    )
    show(facts, words, as_json=as_json)


def note(
    context: typer.Context,
    number: Annotated[Optional[int], typer.Argument(help="The fire's number; default: the newest note.")] = None,  # noqa: UP045
    as_json: Json = False,
) -> None:
    """The note of a fire: stoker note, stoker note 12 --json."""
    show_note(facts_of(context.obj, number), as_json=as_json)


def _seconds(value: float | None) -> str:
    if value is None:
        return "not measured"
    return f"{value:.3g} s" if value >= 1 else f"{value * 1000:.3g} ms"
