-- A claim as claim_batch gave it, for a worker whose reply was lost. One row without spans: nothing was claimed, or it
-- was released since.
with batch as (
    select los, his, attempts, lined from stoker.claims where token = :token
), spans as (
    select s.lo, s.hi, sum(s.hi - s.lo + 1) over (order by s.nth) - (s.hi - s.lo + 1) as before
    from batch b, unnest(b.los, b.his) with ordinality as s (lo, hi, nth)
), chunks as (
    select place / :chunk as chunk, count(*) as tasks, max(priority) as priority,
           string_agg(coalesce(payload::text, 'null'), ',' order by place) as payloads,
           case when count(max_attempts) > 0 then array_agg(max_attempts order by place) end as caps
    from (select (s.before + t.id - s.lo)::integer as place, t.payload, t.max_attempts, t.priority
          from spans s join stoker.tasks t on t.id between s.lo and s.hi) as placed
    group by 1
)
select b.los, b.his, b.attempts, max(c.priority) over () as priority, b.lined, c.tasks, c.payloads, c.caps
from (select) as asked left join batch b on true left join chunks c on true
order by c.chunk
