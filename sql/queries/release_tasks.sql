-- End what is unknown as a person says; what each was and became.
select i.id, m.was, m.became
from unnest(:ids::bigint[]) as i (id) cross join lateral stoker.release_task(i.id, :actor, :reason, :verdict, :forced) m
