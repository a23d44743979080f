"""What is wrong here, and what to do: configuration, database, schema version, clock skew, handlers, loops."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from stoker.hygiene.outbox import is_stuck, undelivered, undelivered_words, unknown_channel
from stoker.hygiene.restored import RestoredError
from stoker.orchestrator.config import Config
from stoker.orchestrator.config_errors import ConfigError
from stoker.orchestrator.door import door_of
from stoker.orchestrator.session import Session
from stoker.orchestrator.snapshot import unserved, why_unserved
from stoker.orchestrator.usable import try_health, try_loop, try_mode
from stoker.sql.database import DatabaseUnreachableError
from stoker.sql.migrate import SchemaVersionError
from stoker.sql.new_task import EnqueueError

_SKEW_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Finding:
    """One check: ``ok`` is None when it could not be made. The text says what was found, or what to do."""

    name: str
    ok: bool | None
    text: str


def examine(session: Session) -> list[Finding]:
    """Every check, in the order in which one needs the other."""
    try:
        config = session.config
    except ConfigError as error:
        return [Finding("configuration", False, str(error))]
    found = [Finding("configuration", True, f"{config.path}, {len(config.modes)} mode(s)")]
    found += [Finding("configuration", False, warning) for warning in config.warnings]
    found += list(_database(session))
    found += [Finding(f"mode {name}", *try_mode(config, name)) for name in config.served]
    found += [Finding(f"mode {name}", *try_health(config, name)) for name, mode in config.served.items() if mode.health]
    found += [_model(config, name) for name, mode in config.served.items() if mode.model]
    found += [Finding(f"loop {name}", *try_loop(config, name)) for name in config.loops]
    return found


def _database(session: Session) -> Iterator[Finding]:
    try:
        database = session.database
    except (DatabaseUnreachableError, SchemaVersionError) as error:
        what = "schema" if isinstance(error, SchemaVersionError) else "database"
        yield Finding(what, False, str(error) if what == "schema" else f"{error}. Check [database] url, and that it runs.")
        return
    ((version, now),) = database.run("server_facts")
    yield Finding("database", True, f"PostgreSQL {version}, {'embedded' if session.config.embedded else 'configured'}")
    yield Finding("schema", True, f"{database.target.schema} is at the version this stoker needs")
    skew = abs((datetime.now(UTC) - now).total_seconds())
    text = f"this host's clock and the database's differ by {skew:.1f} s"
    yield Finding(
        "clock",
        skew < _SKEW_SECONDS,
        text if skew < _SKEW_SECONDS else f"{text}. Leases use the database's; set the host's right.",
    )
    yield from _strange_fires(session)
    yield from _other_interlocks(session)
    for mode, by, reason, since in session.database.run("list_paused"):
        yield Finding(
            "paused", True, f"{mode}, by {by} since {since:%Y-%m-%d %H:%M}: {reason}. To go on: stoker unpause {mode}"
        )
    for kept in undelivered(database):
        known = kept["channel"] in session.config.notify or not kept["waiting"]
        if is_stuck(kept) or not known:
            hint = "See: stoker outbox" if known else unknown_channel(kept["channel"])
            yield Finding("delivery", False, f"{undelivered_words(kept)}. {hint}")
    for one in unserved(database, session.config):
        yield Finding("queue", False, f"{why_unserved(*one, session.config)}. Does another host run it? Else install its code.")


def _strange_fires(session: Session) -> Iterator[Finding]:
    """A loaded dump is known; in a copy of the server's files a fire of a boot that nobody knows is a sign."""
    ((_, _, is_restored, _),) = session.database.run("installation")
    if is_restored:
        yield Finding("restored", False, str(RestoredError()))
    for fire, host, opened_at in session.database.run("strange_fires"):
        text = f"fire {fire} is open since {opened_at:%Y-%m-%d %H:%M}, of a boot of {host} that is not known here"
        yield Finding("open fire", False, f"{text}. If this database was restored: stoker restored")


def _other_interlocks(session: Session) -> Iterator[Finding]:
    rows = session.database.run("last_interlocks")
    if rows:
        config = session.config
        recorded, fire = rows[0]
        others = [_different(one, recorded) for one in (config, *map(config.under, config.schedules.values()))]
        other = min(others, key=len)
        text = (
            f"as in the last fire ({fire})"
            if not other
            else f"differ from those of the last fire ({fire}): {', '.join(other)}. Is another host's config.toml older?"
        )
        yield Finding("interlocks", not other, text)


def _different(config: Config, recorded: dict[str, object]) -> list[str]:
    """The limits that are not as they were recorded."""
    limits = config.limits
    mine = {"fires_per_day": limits.fires_per_day, "max_pool": limits.max_pool, "task_cap": limits.task_cap}
    return [name for name, value in mine.items() if recorded.get(name) != value]


def _model(config: Config, name: str) -> Finding:
    try:
        door_of(config, only=name)
    except EnqueueError as error:
        return Finding(f"mode {name}", False, str(error))
    return Finding(f"mode {name}", True, f"{config.modes[name].model} is a model")
