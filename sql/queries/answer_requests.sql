-- Requests to cancel, of some tasks or of all, that reached nobody: the task is over, or it went back to the queue and can be
-- taken from there. What is unknown is for a person to say.
with over as (
    delete from stoker.cancel_requests where id = any(array(
        select id from stoker.cancel_requests
        where (:ids::bigint[] is null or id = any(:ids)) and stoker.finished_at(id) is not null limit :limit))
    returning id
), open as materialized (
    select r.id, r.actor, r.reason from stoker.cancel_requests r
    where (:ids::bigint[] is null or r.id = any(:ids)) and stoker.finished_at(r.id) is null
      and not exists (select from stoker.unknown u where u.id = r.id)
      and not exists (select from stoker.claims c, unnest(c.los, c.his) as s (lo, hi) where r.id between s.lo and s.hi)
    order by r.id limit :limit
), waiting as (
    select id, actor, reason, (stoker.take_out(id)).spent from open
), off as (
    insert into stoker.cancelled (id, attempts, actor, reason)
    select id, spent, actor, reason from waiting where spent is not null returning id
), answered as (
    delete from stoker.cancel_requests where id = any(array(select id from off))
)
select count(*) as cancelled from off
