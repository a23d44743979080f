-- Give keys whose task is over, and whose time is too, to new tasks; those that were still free.
update stoker.keys k set id = s.id, seconds = s.seconds, created_at = now()
from unnest(:modes::text[], :keys::text[], :ids::bigint[], :seconds::float8[], :before::bigint[])
    as s (mode, key, id, seconds, before)
where k.mode = s.mode and k.key = s.key and k.id = s.before returning k.id
