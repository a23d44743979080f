-- The finished steps of a task that is held under a token: their results by name. No row: the claim is gone.
select coalesce((select json_object_agg(name, result order by finished_at, name)::text from stoker.steps where id = :id),
                '{}') as steps
from stoker.claims where token = :token
