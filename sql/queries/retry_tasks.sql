-- Queue failed and cancelled tasks again, with all their attempts; what each was and became.
select i.id, m.was, m.became
from unnest(:ids::bigint[]) as i (id) cross join lateral stoker.retry_task(i.id, :actor, :reason) m
