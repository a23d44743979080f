-- Where some tasks stand. One after the other, so that no plan reads a whole table of ends.
select q.id, q.status as state, q.mode, q.held_for
from unnest(:ids::bigint[]) as i (id)
cross join lateral (select id, status, mode, held_for from stoker.task_queue where id = i.id limit 1) as q
order by i.id
