-- How much stands queued, by mode: claimable and with which versions, not yet due, and since when the oldest waits.
select mode, sum(ready)::bigint as ready, sum(later)::bigint as later, sum(due)::bigint as due,
       min(oldest) as oldest, min(next_due) as next_due
from (select mode, sum(hi - lo + 1) as ready, 0 as later, 0 as due, min(lo) as oldest, null::timestamptz as next_due
        from stoker.ready group by mode
      union all
      select mode, 0, sum(hi - lo + 1), coalesce(sum(hi - lo + 1) filter (where available_at <= now()), 0), null,
             min(available_at)
        from stoker.later group by mode) as places
group by mode order by mode
