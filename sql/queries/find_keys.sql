-- Who has these keys, asked in a statement of its own, after whoever was giving them has committed; and whether the key
-- may be given anew.
select k.mode, k.key, k.id, e.ended is not null as is_over,
       coalesce(e.ended + make_interval(secs => k.seconds) <= now(), false) as is_free
from unnest(:modes::text[], :keys::text[]) as s (mode, key)
join stoker.keys k on k.mode = s.mode and k.key = s.key
cross join lateral (select stoker.finished_at(k.id) as ended) as e
