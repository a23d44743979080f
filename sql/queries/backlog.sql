-- The queue by mode and payload version: claimable, queued but not due, and for how many seconds the oldest has been claimable.
with places as (
    select mode, version, sum(hi - lo + 1) as ready, 0::numeric as later, min(ready_since) as oldest
    from stoker.ready group by mode, version
    union all
    select mode, version, 0, sum(hi - lo + 1), null from stoker.later group by mode, version
)
select mode, version, sum(ready)::bigint as ready, sum(later)::bigint as later,
       coalesce(extract(epoch from now() - min(oldest)), 0)::float8 as oldest_seconds
from places group by mode, version order by mode, version
