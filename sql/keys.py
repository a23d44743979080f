"""Idempotency keys of many tasks at once: which of them are new, and who has the others."""

from typing import TYPE_CHECKING, Any

import psycopg

from stoker.sql.query import load

if TYPE_CHECKING:
    from stoker.sql.enqueue import NewTask

Key = tuple[str, str]
"""``(mode, key)``."""


def resolve_keys(
    connection: psycopg.Connection[Any], given: "list[NewTask]", ids: dict[int, int], schema: str
) -> dict[int, int]:
    """The places of ``given`` whose key another task has, with its id. ``ids`` are those that the tasks would get.

    1. Claim each key for its task; who is claiming one at this moment in another transaction is waited for.
    2. Look, in a statement of its own, who has the others: only what is committed is there.
    3. A task that has not ended keeps its key. One that has is opened again if that is wanted, or keeps it for a while,
       or loses it to the new one; a key that vanished or was lost meanwhile is claimed again.
    """
    first: dict[Key, int] = {}
    found: dict[int, int] = {}
    again: list[tuple[int, int]] = []
    for place, task in enumerate(given):
        if task.key is not None:
            head = first.setdefault((task.mode, task.key), place)
            if head != place:
                again.append((place, head))
    open_keys = dict(first)
    while open_keys:
        taken = _taken(connection, "take_keys", given, ids, open_keys, schema)
        open_keys = {key: place for key, place in open_keys.items() if ids[place] not in taken}
        free: dict[Key, tuple[int, int]] = {}
        for mode, key, holder, is_over, is_free in _find(connection, open_keys, schema):
            place = open_keys[mode, key]
            reopened = is_over and given[place].retry_terminal and _reopen(connection, holder, schema)
            if is_free and not reopened:
                free[mode, key] = place, holder
            else:
                found[place] = holder
                del open_keys[mode, key]
        if free:
            before = dict(free.values())
            keys = {key: place for key, (place, _) in free.items()}
            taken = _taken(connection, "retake_keys", given, ids, keys, schema, before=before)
            open_keys = {key: place for key, place in open_keys.items() if ids[place] not in taken}
    return found | {place: found.get(head, ids[head]) for place, head in again}


def _taken(
    connection: psycopg.Connection[Any],
    statement: str,
    given: "list[NewTask]",
    ids: dict[int, int],
    keys: dict[Key, int],
    schema: str,
    before: dict[int, int] | None = None,
) -> set[int]:
    parameters: dict[str, Any] = {
        "modes": [mode for mode, _ in keys],
        "keys": [key for _, key in keys],
        "ids": [ids[place] for place in keys.values()],
        "seconds": [float(given[place].key_seconds) for place in keys.values()],
    }
    if before is not None:
        parameters["before"] = [before[place] for place in keys.values()]
    return {task_id for (task_id,) in connection.execute(load(statement, schema), parameters).fetchall()}


def _find(connection: psycopg.Connection[Any], keys: dict[Key, int], schema: str) -> list[tuple[str, str, int, bool, bool]]:
    if not keys:
        return []
    parameters = {"modes": [mode for mode, _ in keys], "keys": [key for _, key in keys]}
    return connection.execute(load("find_keys", schema), parameters).fetchall()


def _reopen(connection: psycopg.Connection[Any], task: int, schema: str) -> bool:
    row = connection.execute(load("reopen", schema), {"id": task}).fetchone()
    return bool(row and row[0])
