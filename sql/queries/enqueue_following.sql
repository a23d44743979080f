-- Enqueue what follows on tasks that are done, in the transaction that settled them: only where the outcome of this very
-- transaction stands. A settlement that was refused, or made before, enqueues nothing. Its key is free by now.
select count(stoker.enqueue(
    n.mode, n.payload, priority => n.priority, version => n.version, max_attempts => n.max_attempts,
    available_at => case when n.delay > 0 then now() + make_interval(secs => n.delay) end, expires_at => n.expires_at,
    tags => n.tags, lane_key => n.lane_key, needs_approval => n.needs_approval, key => n.key, key_seconds => n.key_seconds,
    allow_unknown => true)) as enqueued
from json_to_recordset(:tasks::json) as n (
    parent bigint, token uuid, mode text, payload json, priority integer, version integer, max_attempts integer,
    delay double precision, expires_at timestamptz, tags text[], lane_key text, needs_approval boolean, key text,
    key_seconds double precision)
where exists (select from stoker.outcomes o
              where o.lo = n.parent and o.token = n.token and o.xmin = pg_current_xact_id()::xid)
