-- Give keys whose task is over, and whose time is too, to new tasks; those that were still free. Of a task that may be opened
-- again it is remembered that the key was its own.
with retaken as (
    update stoker.keys k set id = s.id, seconds = s.seconds, created_at = now()
    from unnest(:modes::text[], :keys::text[], :ids::bigint[], :seconds::float8[], :before::bigint[])
        as s (mode, key, id, seconds, before)
    where k.mode = s.mode and k.key = s.key and k.id = s.before returning k.id, k.mode, k.key, s.before
), remembered as (
    insert into stoker.former_keys (id, mode, key) select before, mode, key from retaken r
    where exists (select from stoker.failed f where f.id = r.before)
       or exists (select from stoker.cancelled c where c.id = r.before) on conflict do nothing
)
select id from retaken
