-- Seconds a task of each mode took, over its last fifty workers that did any.
select mode, sum(busy_seconds) / sum(done + failed + retried) as seconds
from (select mode, busy_seconds, done, failed, retried,
             row_number() over (partition by mode order by started_at desc) as nth
      from stoker.workers where mode = any(:modes::text[]) and done + failed + retried > 0
        and started_at > now() - interval '30 days') as recent
where nth <= 50 group by mode
