-- Enter a worker into an open fire. The share lock makes a concurrent closing wait or this see it: no row then.
insert into stoker.workers (worker, fire, mode, ordinal, owner, lease_until)
select :worker, f.fire, :mode, :ordinal, :owner, now() + make_interval(secs => :lease)
from (select fire from stoker.fires where fire = :fire and state = 'open' for share) f
on conflict (worker) do nothing
returning worker
