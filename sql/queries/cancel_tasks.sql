-- Call tasks off, or ask for it while a worker has them; what each was and became.
select i.id, m.was, m.became
from unnest(:ids::bigint[]) as i (id) cross join lateral stoker.cancel_task(i.id, :actor, :reason) m
