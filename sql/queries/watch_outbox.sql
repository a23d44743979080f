-- By channel, notes that were not delivered: how many wait or were given up, seconds the oldest has waited, and the last error.
select channel, count(*) filter (where state = 'queued') as waiting, count(*) filter (where state = 'dead') as dead,
       extract(epoch from now() - min(created_at))::float8 as oldest_seconds,
       (array_agg(last_error order by tried_at desc nulls last) filter (where last_error is not null))[1] as error
from stoker.outbox where state in ('queued', 'dead') and kind in ('note', 'digest') group by channel order by channel
