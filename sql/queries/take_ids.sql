-- :count new ids: the first and the last, and each of them where another loader's lie between.
select min(id) as lo, max(id) as hi, case when max(id) - min(id) + 1 > count(*) then array_agg(id) end as ids
from (select nextval('stoker.task_ids') as id from generate_series(1, :count)) as taken
