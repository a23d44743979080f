-- Seconds a task of each mode took, over its last fifty workers that did any.
select asked.mode, sum(busy_seconds) / sum(done + failed + retried) as seconds
from unnest(:modes::text[]) as asked (mode), lateral (
    select busy_seconds, done, failed, retried from stoker.workers
    where mode = asked.mode and done + failed + retried > 0 and started_at > now() - interval '30 days'
    order by started_at desc limit 50) as recent
group by asked.mode
