-- By channel, what is not delivered: waiting, of that tried in vain, dead, held after a restore; seconds the oldest has waited.
select channel, count(*) filter (where state = 'queued') as waiting,
       count(*) filter (where state = 'queued' and attempts > 0) as failing,
       count(*) filter (where state = 'dead') as dead, count(*) filter (where state = 'held') as held,
       coalesce(extract(epoch from now() - min(created_at) filter (where state = 'queued')), 0)::float8 as oldest,
       (array_agg(last_error order by state_at desc) filter (where last_error is not null))[1] as error
from stoker.outbox where state in ('queued', 'dead', 'held') group by channel order by channel
