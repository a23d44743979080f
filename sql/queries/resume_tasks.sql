-- Queue held tasks again; what each was and became.
select i.id, m.was, m.became
from unnest(:ids::bigint[]) as i (id) cross join lateral stoker.resume_task(i.id, :actor, :reason, :answer) m
