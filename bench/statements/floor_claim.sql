-- The floor's claim: what stoker's own promises, and no more. No row: fenced. A row without an id: nothing was free.
with me as (
    update stoker.workers set lease_until = now() + interval '30 seconds'
    where worker = %(worker)s and fenced_at is null and exited_at is null
    returning worker, fire
), seen as (
    select span, priority, lo, hi, attempts from stoker.ready
    where mode = 'floor' and version = 1 and (priority, lo) > (%(mark_priority)s, %(mark_lo)s) and exists (select from me)
    order by priority, lo limit %(locks)s for update skip locked
), summed as (
    select span, priority, lo, hi, attempts, sum(hi - lo + 1) over (order by priority, lo) - (hi - lo + 1) as before
    from seen
), used as (
    select span, priority, lo, hi, attempts, least(hi, lo + %(batch)s - before - 1)::bigint as upto
    from summed where before < %(batch)s
), gone as (
    delete from stoker.ready r using used u where r.span = u.span and u.upto = u.hi
), cut as (
    update stoker.ready r set lo = u.upto + 1 from used u where r.span = u.span and u.upto < u.hi
), held as (
    insert into stoker.claims (token, worker, fire, mode, side_effect, max_attempts, los, his, attempts, taken, started,
                               dead_by)
    select %(token)s, me.worker, me.fire, 'floor', false, 5, a.los, a.his, a.attempts, a.taken, true,
           now() + interval '10 minutes'
    from me, (select array_agg(lo) as los, array_agg(upto) as his, array_agg(attempts) as attempts,
                     sum(upto - lo + 1) as taken from used having count(*) > 0) a
)
select t.id, t.payload, u.attempts, u.priority, u.lo, u.upto
from me left join used u on true left join stoker.tasks t on t.id between u.lo and u.upto
