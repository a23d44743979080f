-- A fire at a glance while it runs.
select coalesce(sum(done), 0)::bigint as done, coalesce(sum(failed), 0)::bigint as failed,
       coalesce(sum(retried), 0)::bigint as retried,
       count(*) filter (where exited_at is null) as living, count(*) as workers
from stoker.workers where fire = :fire
