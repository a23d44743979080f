-- Lines that lost their front while somebody came to stand behind it: the first of each comes to the front. The line is entered
-- first, as by those who enqueue: who comes at this moment is waited for.
with front as (
    insert into stoker.lines (mode, lane_key, id)
    select distinct on (mode, lane_key) mode, lane_key, id from stoker.in_line i
    where not exists (select from stoker.lines l where l.mode = i.mode and l.lane_key = i.lane_key)
    order by mode, lane_key, id
    on conflict do nothing returning id
), first as (
    delete from stoker.in_line where id = any(array(select id from front))
    returning mode, lane_key, id, version, priority, available_at, expires_at
), now_ready as (
    insert into stoker.ready (mode, version, priority, lo, hi, expires_at, lane_key)
    select mode, version, priority, id, id, expires_at, lane_key from first where coalesce(available_at <= now(), true)
), later as (
    insert into stoker.later (mode, version, priority, lo, hi, available_at, expires_at, lane_key)
    select mode, version, priority, id, id, available_at, expires_at, lane_key from first where available_at > now()
)
select count(*) as opened from first
