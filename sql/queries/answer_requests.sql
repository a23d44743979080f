-- Requests to cancel that reached nobody: the task is over, or it went back to the queue and can be taken from there.
with over as (
    delete from stoker.cancel_requests where id = any(array(
        select id from stoker.cancel_requests where stoker.finished_at(id) is not null limit :limit))
    returning id
), waiting as (
    select r.id, r.actor, r.reason, (stoker.take_out(r.id)).spent
    from stoker.cancel_requests r
    where stoker.finished_at(r.id) is null
      and not exists (select from stoker.claims c, unnest(c.los, c.his) as s (lo, hi) where r.id between s.lo and s.hi)
    order by r.id limit :limit
), off as (
    insert into stoker.cancelled (id, attempts, actor, reason)
    select id, spent, actor, reason from waiting where spent is not null returning id
), answered as (
    delete from stoker.cancel_requests where id = any(array(select id from off))
)
select count(*) as cancelled from off
