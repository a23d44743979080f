-- Who has these keys, asked in a statement of its own, after whoever was giving them has committed; and whether the key
-- may be given anew. As stoker.finished_at says it of one task: called for each of many it would take most of the time.
select k.mode, k.key, k.id, e.ended is not null as is_over,
       coalesce(e.ended + make_interval(secs => k.seconds) <= now(), false) as is_free
from unnest(:modes::text[], :keys::text[]) as s (mode, key)
join stoker.keys k on k.mode = s.mode and k.key = s.key
left join lateral (select finished_at, hi from stoker.outcomes where lo <= k.id order by lo desc limit 1) o on o.hi >= k.id
left join stoker.failed f on f.id = k.id
left join stoker.cancelled c on c.id = k.id
left join stoker.expired x on x.id = k.id
cross join lateral (select coalesce(o.finished_at, f.failed_at, c.cancelled_at, x.expired_at) as ended) as e
