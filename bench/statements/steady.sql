-- How many tasks were settled while every worker worked: from the moment when the last of them was given its first task
-- to the last settlement of the one that left first. Workers that settled nothing do not count.
with each as (
    select o.worker, w.first_task_at as since, max(o.finished_at) as until
    from stoker.outcomes o join stoker.workers w using (worker) group by o.worker, w.first_task_at
), all_at_work as (
    select count(*) as workers, max(since) as since, min(until) as until from each
)
select a.workers, extract(epoch from a.until - a.since)::float8 as seconds,
       coalesce(sum(o.hi - o.lo + 1) filter (where o.finished_at > a.since and o.finished_at <= a.until), 0)::bigint as settled,
       sum(o.hi - o.lo + 1)::bigint as tasks
from all_at_work a, stoker.outcomes o group by a.workers, a.since, a.until
