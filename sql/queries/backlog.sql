-- The queue by mode and payload version: claimable, queued but not due, and the age in seconds of the oldest claimable.
with places as (
    select mode, version, sum(hi - lo + 1) as ready, 0::numeric as later, min(lo) as oldest
    from stoker.ready group by mode, version
    union all
    select mode, version, 0, sum(hi - lo + 1), null from stoker.later group by mode, version
)
select mode, version, ready, later,
       coalesce((select extract(epoch from now() - created_at) from stoker.tasks where id = oldest), 0)::float8 as oldest_seconds
from (select mode, version, sum(ready)::bigint as ready, sum(later)::bigint as later, min(oldest) as oldest
      from places group by mode, version) as summed
order by mode, version
