-- :count new ids, as the runs of neighbours they came in: another loader's ids may lie between.
select min(id)::bigint as lo, max(id)::bigint as hi
from (select id, id - row_number() over (order by id) as island
      from (select nextval('stoker.task_ids') as id from generate_series(1, :count)) as taken) as placed
group by island order by 1
