-- Give each key its task, unless another has it; those that are new. In the order of the keys, so that two who give the
-- same ones wait for each other and never in a circle.
insert into stoker.keys as k (mode, key, id, seconds)
select mode, key, id, seconds
from unnest(:modes::text[], :keys::text[], :ids::bigint[], :seconds::float8[]) as s (mode, key, id, seconds)
order by mode collate "C", key collate "C"
on conflict do nothing returning k.id
