"""``stoker import``: the rows of a queue table that was there before, as tasks."""

import itertools
import json
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stoker.orchestrator.session import Session, UsageError, say, say_json, say_table

if TYPE_CHECKING:
    from stoker.sql.enqueue import Door, NewTask
    from stoker.sql.table_source import TableMapping, TableSource

Json = Annotated[bool, typer.Option("--json", help="JSON, for programs.")]
_BATCH = 10_000
_SHOWN = 5


def add_to(app: typer.Typer) -> None:
    """Add this command to the command line."""
    app.command("import")(import_)


def import_(
    context: typer.Context,
    from_table: Annotated[Path, typer.Option(help="A mapping in TOML: which table, which rows, which column is what.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Count the rows and show the first; write nothing.")] = False,
    as_json: Json = False,
) -> None:
    """Take the rows of another queue's table as tasks, each once, however often this is run.

    stoker import --from-table jobs.toml --dry-run
    """
    from stoker.orchestrator.door import door_of
    from stoker.orchestrator.tell import tell_modes
    from stoker.sql.table_source import open_table

    session: Session = context.obj
    mapping = read_mapping(from_table)
    door = door_of(session.config, only=mapping.mode or None)
    versions = {name: mode.version for name, mode in session.config.modes.items()}
    tell_modes(session.database, session.config)
    url = _url(mapping, from_table.parent) or session.url()
    with open_table(url, mapping, versions) as source:
        total = source.count()
        if dry_run:
            _show(source, total, mapping, door, as_json=as_json)
            return
        added, there = _take(session, source, total, mapping, door)
    if as_json:
        say_json({"rows": added + there, "enqueued": added, "duplicates": there})
    else:
        say(f"enqueued {added:,} task(s)" + (f"; {there:,} were there already" if there else ""))


def read_mapping(path: Path) -> "TableMapping":
    """The mapping in a file; raises UsageError with all that is wrong."""
    from stoker.sql.section import SectionError
    from stoker.sql.table_source import TableMapping

    try:
        return TableMapping.of(tomllib.loads(path.read_text("utf-8")))
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
    except ValueError as error:
        raise UsageError(f"{path} is not TOML: {error}") from None
    except SectionError as error:
        wrongs = "; ".join(": ".join(filter(None, [".".join(map(str, where)), wrong])) for where, wrong in error.wrongs)
        raise UsageError(f"{path}: {wrongs}. It may have: {', '.join(TableMapping.keys)}") from None


def _url(mapping: "TableMapping", folder: Path) -> str:
    if not mapping.url_file:
        return mapping.url
    try:
        return (folder / mapping.url_file).read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError):
        raise UsageError(f"url_file {folder / mapping.url_file} cannot be read") from None


def _take(session: Session, source: "TableSource", total: int, mapping: "TableMapping", door: "Door") -> tuple[int, int]:
    """Batch by batch, each one transaction; how many were added, and how many had been there."""
    from stoker.orchestrator.bulk_bar import bar
    from stoker.sql.enqueue import EnqueueError, enqueue_many
    from stoker.sql.table_source import ImportRefusedError, refused

    added = there = 0
    with bar("importing", total) as tell:
        try:
            for batch in _batches(source.tasks()):
                ids, tasks = zip(*batch, strict=True)
                try:
                    found = session.database.in_transaction(lambda tx, tasks=tasks: enqueue_many(tx.connection, tasks, door))  # type: ignore[misc]
                except EnqueueError as error:
                    raise refused(mapping, ids[(error.line or 1) - 1], error.reason) from None
                there += len(found.duplicates)
                added += len(found) - len(found.duplicates)
                tell(len(found))
        except ImportRefusedError as error:
            done = f"{added + there:,} rows before its batch are in; mend it, or leave it out by where, and run this again"
            raise ImportRefusedError(f"{error.reason}. {done}.") from None
    return added, there


def _batches(tasks: "Iterator[tuple[str, NewTask]]") -> "Iterator[list[tuple[str, NewTask]]]":
    while batch := list(itertools.islice(tasks, _BATCH)):
        yield batch


def _show(source: "TableSource", total: int, mapping: "TableMapping", door: "Door", *, as_json: bool) -> None:
    from stoker.sql.enqueue import EnqueueError, check_task
    from stoker.sql.table_source import refused

    shown = []
    for row_id, task in source.tasks(_SHOWN):
        try:
            check_task(task, door)
        except EnqueueError as error:
            raise refused(mapping, row_id, error.reason) from None
        shown.append((row_id, task.mode, task.priority, task.available_at, task.payload))
    names = ("row", "mode", "priority", "available_at", "payload")
    if as_json:
        say_json({"rows": total, "first": [dict(zip(names, row, strict=True)) for row in shown]})
        return
    say(f"{total:,} row(s) of {mapping.schema}.{mapping.table}; nothing was written")
    say_table(names, [(*row[:4], json.dumps(row[4], ensure_ascii=False)) for row in shown])
