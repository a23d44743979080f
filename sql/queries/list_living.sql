-- Workers that have not left, with whether their lease is over by this clock.
select worker, fire, mode, ordinal, owner, lease_until < now() as lapsed, fenced_at is not null as fenced
from stoker.workers where exited_at is null and (:fire::bigint is null or fire = :fire)
order by started_at, worker
