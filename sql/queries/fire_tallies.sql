-- The words that results were tallied by, over the workers of a fire: of each mode the fifty most frequent, and the others.
with counted as (
    select mode, t.key as label, sum(t.value::bigint) as count
    from stoker.workers, json_each_text(tally) as t where fire = :fire group by mode, t.key
), ranked as (
    select mode, label, count, row_number() over (partition by mode order by label = '(others)', count desc, label) as place
    from counted
)
select mode, case when place <= 50 then label else '(others)' end as label, sum(count)::bigint as count
from ranked group by 1, 2 order by 1, 2
