-- :count new ids, as the runs of neighbours they came in: another loader's ids may lie between, which is looked into only
-- when there is a gap.
with taken as materialized (
    select nextval('stoker.task_ids') as id from generate_series(1, :count)
), ends as materialized (
    select min(id) as lo, max(id) as hi, max(id) - min(id) + 1 > count(*) as has_gaps from taken
)
select lo, hi from ends where not has_gaps
union all
select min(id), max(id)
from (select id, id - row_number() over (order by id) as island from taken where (select has_gaps from ends)) as placed
group by island order by 1
