-- Let the next of each line come to the front whose head is over; how many of these heads were. One that is locked is left for
-- the next look.
with over as (
    select mode, lane_key, id from stoker.lines where id = any(:ids::bigint[])
      and stoker.finished_at(id) is not null order by id for update skip locked
), next as (
    delete from stoker.in_line where id = any(array(
        select n.id from over o cross join lateral (
            select id from stoker.in_line i where i.mode = o.mode and i.lane_key = o.lane_key
            order by id limit 1 for update skip locked) n))
    returning mode, lane_key, id, version, priority, available_at, expires_at
), front as (
    update stoker.lines l set id = n.id from next n where l.mode = n.mode and l.lane_key = n.lane_key
), gone as (
    delete from stoker.lines l using over o
    where l.mode = o.mode and l.lane_key = o.lane_key
      and not exists (select from next n where n.mode = o.mode and n.lane_key = o.lane_key)
), now_ready as (
    insert into stoker.ready (mode, version, priority, lo, hi, expires_at, lane_key)
    select mode, version, priority, id, id, expires_at, lane_key from next where coalesce(available_at <= now(), true)
), later as (
    insert into stoker.later (mode, version, priority, lo, hi, available_at, expires_at, lane_key)
    select mode, version, priority, id, id, available_at, expires_at, lane_key from next where available_at > now()
)
select count(*) as over from over
