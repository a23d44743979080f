-- Tasks that this transaction inserted and that stand in a line or wait for approval: each to its own place, in the order
-- given: line by line, so that two who come to the same lines wait for each other and never in a circle.
with asked as (
    insert into stoker.held (id, kind, available_at, expires_at)
    select id, 'approval', available_at, expires_at
    from unnest(:ids::bigint[], :times::timestamptz[], :ends::timestamptz[], :asking::boolean[])
        as s (id, available_at, expires_at, asks) where asks
)
select count(stoker.place(id, 0, available_at))
from (select id, available_at
      from unnest(:ids::bigint[], :times::timestamptz[], :asking::boolean[]) with ordinality as s (id, available_at, asks, nth)
      where not asks order by nth) as in_order
