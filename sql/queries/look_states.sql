select id, status as state, mode, held_for from stoker.task_queue where id = any(:ids::bigint[]) order by id
