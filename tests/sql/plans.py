"""A large queue, and what PostgreSQL makes of a statement on it: its plan, and how much it touched.

The statistics are those of an analyse that saw the tables with a few rows of another mode (``tiny``) or none (``empty``),
or of one that saw them as they are (``fresh``). Nothing repairs them: autovacuum is off.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import sql
from tests.postgres import Cluster

from stoker.sql.query import load

SITUATIONS = ("tiny", "empty", "fresh")
READY = 1_000_000
FIRST_READY = 250_001
FIRST_LATER = 150_001
HELD = 100
NOBODY = "00000000-0000-0000-0000-000000000001"
_PARAMETER = re.compile(r"%\((\w+)\)s|%%")
_BIG = ("tasks", "ready", "later", "outcomes", "claims", "workers", "attempts", "outputs", "failed", "unknown", "fires")
_PART = re.compile(r"_(\d+|beyond)$")

_FEW = """
    insert into stoker.tasks (id, mode, payload) select i, 'x', '{}' from generate_series(9000001, 9000003) i;
    insert into stoker.ready (mode, version, priority, lo, hi) values ('x', 1, 0, 9000001, 9000001);
    insert into stoker.later (mode, version, priority, lo, hi, available_at) values ('x', 1, 0, 9000002, 9000002, now());
    insert into stoker.outcomes (lo, hi, fire, worker, token, attempt, seconds)
    values (9000003, 9000003, 1, gen_random_uuid(), gen_random_uuid(), 1, 0.1);
    insert into stoker.attempts (id, attempt, token, fire, worker, verdict, error_kind)
    values (9000001, 1, gen_random_uuid(), 1, gen_random_uuid(), 'retry', 'E');
    insert into stoker.workers (worker, fire, mode, ordinal, owner, lease_until, exited_at)
    values (gen_random_uuid(), 1, 'x', 1, '{}', now(), now());
    insert into stoker.claims (token, worker, fire, mode, side_effect, max_attempts, los, his, attempts, taken, started,
                               dead_by)
    values (gen_random_uuid(), gen_random_uuid(), 1, 'x', false, 5, '{9000001}', '{9000001}', '{0}', 1, true, now());
"""
_MANY = f"""
    select setval('stoker.task_ids', 9500000);
    insert into stoker.tasks (id, mode, payload) select i, 'm', '{{"n":1}}' from generate_series(1, 1250000) i;
    insert into stoker.ready (mode, version, priority, lo, hi)
    select 'm', 1, 0, i, i from generate_series({FIRST_READY}, {FIRST_READY} + {READY} - 1) i;
    insert into stoker.outcomes (lo, hi, fire, worker, token, attempt, seconds)
    select i, i, 1 + i / 1000, '{NOBODY}', '{NOBODY}', 1, 0.1 from generate_series(1, 140000) i;
    insert into stoker.later (mode, version, priority, lo, hi, available_at)
    select 'm', 1, 0, i, i, now() + (i % 1000 - 500) * interval '1 hour' from generate_series({FIRST_LATER}, 248000) i;
    insert into stoker.failed (id, attempts, fire, error_kind) select i, 5, 1, 'E' from generate_series(140001, 145000) i;
    insert into stoker.attempts (id, attempt, token, fire, worker, verdict, error_kind)
    select i, 1, '{NOBODY}', 1 + i % 100, '{NOBODY}', 'retry', 'E' from generate_series(120001, 145000) i;
    insert into stoker.outputs (id, attempt, token, output)
    select i, 1, '{NOBODY}', 'said' from generate_series(120001, 145000) i;
    insert into stoker.workers (worker, fire, mode, ordinal, owner, lease_until, done, busy_seconds, exited_at, exit_reason)
    select gen_random_uuid(), 1 + i / 12, 'm', i, '{{}}', now(), 100, 1, now(), 'empty' from generate_series(1, 20000) i;
    insert into stoker.fires (key, lane, state, day, lease_until, interlocks, owner, closed_at)
    select gen_random_uuid(), 'main', 'closed', '2026-01-01'::date + i / 6, now(), '{{}}', '{{}}', now()
    from generate_series(1, 5000) i;
    insert into stoker.claims (token, worker, fire, mode, side_effect, max_attempts, los, his, attempts, taken, started,
                               dead_by)
    select gen_random_uuid(), gen_random_uuid(), 1, 'm', false, 5, array_agg(i), array_agg(i),
           array_agg(0), {HELD}, true, now()
    from generate_series(145001, 150000) i group by i / {HELD};
"""
_UNSEEN = """
    delete from pg_catalog.pg_statistic
    where starelid in (select oid from pg_class where relnamespace = 'stoker'::regnamespace);
    update pg_catalog.pg_class set reltuples = 0, relpages = 0 where relnamespace = 'stoker'::regnamespace and relkind = 'r';
"""


def build(cluster: Cluster, template: str) -> dict[str, str]:
    """One database a situation, by name: the same rows, other statistics."""
    tiny = cluster.create(template)
    with psycopg.connect(cluster.url(tiny), autocommit=True) as connection:
        for table in _tables(connection):
            connection.execute(sql.SQL("alter table {} set (autovacuum_enabled = off)").format(table))
        for statement in (_FEW, "analyze", _MANY):
            connection.execute(statement)
    names = {"tiny": tiny, "empty": cluster.create(tiny), "fresh": cluster.create(tiny)}
    for situation, statement in (("empty", _UNSEEN), ("fresh", "analyze")):
        with psycopg.connect(cluster.url(names[situation]), autocommit=True) as connection:
            connection.execute(statement)
    return names


def _tables(connection: psycopg.Connection[Any]) -> list[sql.Identifier]:
    rows = connection.execute("select relname from pg_class where relnamespace = 'stoker'::regnamespace and relkind = 'r'")
    return [sql.Identifier("stoker", name) for (name,) in rows]


@dataclass(frozen=True, slots=True)
class Node:
    """A node of a plan: what it does, to which table, what it touched if it was run."""

    kind: str
    table: str
    index: str
    rows: float
    blocks: int

    @property
    def reads_all(self) -> bool:
        """Whether it reads a whole table that grows."""
        return self.kind == "Seq Scan" and _PART.sub("", self.table) in _BIG


@dataclass(frozen=True, slots=True)
class Plan:
    """All nodes of a plan, and the blocks that the statement touched if it was run."""

    nodes: tuple[Node, ...]
    blocks: int
    text: str

    @property
    def whole_tables(self) -> set[str]:
        """The growing tables of which it reads all."""
        return {node.table for node in self.nodes if node.reads_all}

    @property
    def most_rows(self) -> float:
        """The most rows that any node saw, those it filtered out included."""
        return max(node.rows for node in self.nodes)


def explain(
    connection: psycopg.Connection[Any], name: str, parameters: dict[str, Any], *, generic: bool, run: bool = True
) -> Plan:
    """The plan of queries/``name``.sql, for these parameters or for any; ``run`` also runs it, and takes it back."""
    names: list[str] = []

    def number(match: re.Match[str]) -> str:
        if match[1] is None:
            return "%"
        if match[1] not in names:
            names.append(match[1])
        return f"${names.index(match[1]) + 1}"

    text = _PARAMETER.sub(number, load(name, "stoker"))
    values = [parameters[one] for one in names]
    types = ", ".join(_type(value) for value in values)
    call = "(" + ", ".join(sql.Literal(value).as_string(connection) for value in values) + ")"
    options = "analyze, buffers, timing off, format json" if run else "format json"
    connection.execute(f"prepare asked {f'({types})' if types else ''} as {text}".encode())
    try:
        with connection.transaction(force_rollback=True):
            connection.execute(
                f"set local plan_cache_mode = {'force_generic_plan' if generic else 'force_custom_plan'}".encode()
            )
            rows = connection.execute(f"explain ({options}) execute asked {call if values else ''}".encode()).fetchall()
    finally:
        connection.execute("deallocate asked")
    root = rows[0][0][0]["Plan"]
    tops = [root, *(part for part in _walk(root) if "Subplan Name" in part)]
    return Plan(tuple(map(_node, _walk(root))), sum(map(_blocks, tops)), json.dumps(root, indent=1))


def _type(value: Any) -> str:
    """As the driver sends it: text and lists without a type, to be inferred."""
    if isinstance(value, bool):
        return "boolean"
    return {int: "bigint", float: "double precision"}.get(type(value), "unknown")


def _walk(part: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield part
    for inner in part.get("Plans", ()):
        yield from _walk(inner)


def _node(part: dict[str, Any]) -> Node:
    seen = part.get("Actual Rows", 0) + part.get("Rows Removed by Filter", 0) + part.get("Rows Removed by Join Filter", 0)
    rows = seen * part.get("Actual Loops", 1)
    return Node(part["Node Type"], part.get("Relation Name", ""), part.get("Index Name", ""), rows, _blocks(part))


def _blocks(part: dict[str, Any]) -> int:
    return int(part.get("Shared Hit Blocks", 0)) + int(part.get("Shared Read Blocks", 0))
