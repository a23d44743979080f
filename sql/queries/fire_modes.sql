-- What the workers of a fire did, by mode.
select mode, count(*) as workers, sum(done)::bigint as done, sum(failed)::bigint as failed,
       sum(retried)::bigint as retried, sum(busy_seconds)::float8 as seconds, sum(respawns)::bigint as respawns
from stoker.workers where fire = :fire group by mode order by mode
