-- Hold queued tasks until a person resumes them; what each was and became.
select i.id, m.was, m.became
from unnest(:ids::bigint[]) as i (id) cross join lateral stoker.hold_task(i.id, :actor, :reason) m
