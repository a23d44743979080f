-- The words that results were tallied by, over the workers of a fire.
select mode, t.key as label, sum(t.value::bigint)::bigint as count
from stoker.workers, json_each_text(tally) as t where fire = :fire group by mode, t.key order by mode, t.key
