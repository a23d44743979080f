-- Who has these keys, which others had: the new task, or the one that keeps it or is opened again. One by one, in the order of
-- the keys, so that two who want the same ones wait for each other and never in a circle.
select id, stoker.take_key(mode, key, id, seconds, retries) as holder
from (select mode, key, id, seconds, retries
      from unnest(:modes::text[], :keys::text[], :ids::bigint[], :seconds::float8[], :retries::boolean[])
          as s (mode, key, id, seconds, retries)
      order by mode collate "C", key collate "C") as in_order
