-- Take out what finished tasks say; what each was and became.
select i.id, m.was, m.became
from unnest(:ids::bigint[]) as i (id) cross join lateral stoker.erase_task(i.id, :actor, :reason, :forced) m
