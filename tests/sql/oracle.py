"""What must hold of the queue at every instant, asked of the rows themselves."""

from dataclasses import dataclass
from typing import Any

import psycopg

from stoker.sql.partitions import PARTITION_IDS
from stoker.sql.query import in_schema

_PLACES = """
    select 'ready' as place, lo, hi from stoker.ready
    union all select 'later', lo, hi from stoker.later
    union all select 'claimed', s.lo, s.hi from stoker.claims c, unnest(c.los, c.his) as s (lo, hi)
    union all select 'done', lo, hi from stoker.outcomes
    union all select 'failed', id, id from stoker.failed
    union all select 'unknown', id, id from stoker.unknown
    union all select 'held', id, id from stoker.held
    union all select 'cancelled', id, id from stoker.cancelled
    union all select 'expired', id, id from stoker.expired
    union all select 'in_line', id, id from stoker.in_line
"""

_TWICE = f"""
    select place, lo, hi, before from (
        select place, lo, hi, max(hi) over (order by lo, hi rows between unbounded preceding and 1 preceding) as before
        from ({_PLACES}) as places) as ordered
    where lo <= before
"""

_NOWHERE = f"""
    select t.id from stoker.tasks t
    where t.id not in (select generate_series(lo, hi) from ({_PLACES}) as places)
"""

_FOREIGN = f"""
    select place, id from (select place, generate_series(lo, hi) as id from ({_PLACES}) as places) as placed
    where id not in (select id from stoker.tasks)
"""

_MIXED = """
    select s.lo, s.hi, t.id
    from (select mode, version, priority, expires_at, lane_key, generate_series(lo, hi) as id, lo, hi from stoker.ready
          union all
          select mode, version, priority, expires_at, lane_key, generate_series(lo, hi), lo, hi from stoker.later) as s
    join stoker.tasks t using (id)
    where (t.mode, t.version, t.priority, t.expires_at, t.lane_key)
          is distinct from (s.mode, s.version, s.priority, s.expires_at, s.lane_key)
"""

_OVER_A_BORDER = """
    select lo, hi from (select lo, hi from stoker.ready union all select lo, hi from stoker.later) as s
    where lo / %(ids)s <> hi / %(ids)s
"""

_COUNTS = f"select place, sum(hi - lo + 1)::bigint from ({_PLACES}) as places group by place"


@dataclass(frozen=True, slots=True)
class Counts:
    """Tasks by where their ids stand."""

    ready: int = 0
    later: int = 0
    claimed: int = 0
    done: int = 0
    failed: int = 0
    unknown: int = 0
    held: int = 0
    cancelled: int = 0
    expired: int = 0
    in_line: int = 0


def check(connection: psycopg.Connection[Any], schema: str = "stoker") -> Counts:
    """Every task stands in exactly one place, and every span is what it says; the counts by place."""

    def ask(text: str, **parameters: Any) -> list[Any]:
        return connection.execute(placed(text, schema, parameters), parameters or None).fetchall()

    with connection.transaction():
        connection.execute("set transaction isolation level repeatable read")
        assert (twice := ask(_TWICE)) == [], f"ids that stand in two places: {twice[:5]}"
        assert (nowhere := ask(_NOWHERE)) == [], f"tasks that stand nowhere: {nowhere[:5]}"
        assert (foreign := ask(_FOREIGN)) == [], f"ids that are no task: {foreign[:5]}"
        assert (mixed := ask(_MIXED)) == [], f"spans that hold a task of another kind: {mixed[:5]}"
        assert (over := ask(_OVER_A_BORDER, ids=PARTITION_IDS)) == [], f"spans over a partition's border: {over[:5]}"
        return Counts(**dict(ask(_COUNTS)))


def placed(text: str, schema: str, parameters: object) -> str:
    """A statement of a test's own, in ``schema``; psycopg reads percent signs only when there are parameters."""
    return in_schema(text, schema.replace("%", "%%") if parameters else schema)
