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
    2. Look, in a statement of its own, who has the others: only what is committed is there. A task that has not ended keeps its
       key, and one that has keeps it for a while.
    3. The rest are contested one by one: a key goes to the new task, or stays with one that is opened again.
    """
    first: dict[Key, int] = {}
    again: list[tuple[int, int]] = []
    for place, task in enumerate(given):
        if task.key is not None:
            head = first.setdefault((task.mode, task.key), place)
            if head != place:
                again.append((place, head))
    taken = {task_id for (task_id,) in _run(connection, "take_keys", _columns(given, ids, first), schema)}
    others = {key: place for key, place in first.items() if ids[place] not in taken}
    found: dict[int, int] = {}
    if others:
        asked = {"modes": [mode for mode, _ in others], "keys": [key for _, key in others]}
        for mode, key, holder, is_over, is_free in _run(connection, "find_keys", asked, schema):
            place = others[mode, key]
            if not (is_free or (is_over and given[place].retry_terminal)):
                found[place] = holder
                del others[mode, key]
    if others:
        columns = _columns(given, ids, others) | {"retries": [given[place].retry_terminal for place in others.values()]}
        holders = dict(_run(connection, "contest_keys", columns, schema))
        found |= {place: holders[ids[place]] for place in others.values() if holders[ids[place]] != ids[place]}
    return found | {place: found.get(head, ids[head]) for place, head in again}


def _columns(given: "list[NewTask]", ids: dict[int, int], keys: dict[Key, int]) -> dict[str, Any]:
    return {
        "modes": [mode for mode, _ in keys],
        "keys": [key for _, key in keys],
        "ids": [ids[place] for place in keys.values()],
        "seconds": [float(given[place].key_seconds) for place in keys.values()],
    }


def _run(connection: psycopg.Connection[Any], statement: str, parameters: dict[str, Any], schema: str) -> list[tuple[Any, ...]]:
    return connection.execute(load(statement, schema), parameters).fetchall()
