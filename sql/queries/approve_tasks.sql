-- Let approved tasks start, or fail those refused; what each was and became.
select i.id, m.was, m.became
from unnest(:ids::bigint[]) as i (id) cross join lateral stoker.approve_task(i.id, :actor, :reason, :refused) m
