-- Take up to :batch tasks of one mode and version, after the mark, for a worker that is not fenced, and renew its lease.
-- No row: fenced. One row without an id: nothing was free. A span is found again by its immutable id, never by lo.
-- Only a claim of one waits for start_claim: the tasks of a larger one may be handed over as soon as it is made.
with me as (
    update stoker.workers set lease_until = now() + make_interval(secs => :lease)
    where worker = :worker and fenced_at is null and exited_at is null
    returning worker, fire
), seen as (
    select span, priority, lo, hi, attempts, suspect from stoker.ready
    where mode = :mode and version = :version and (priority, lo) > (:mark_priority, :mark_lo)
      and exists (select from me)
    order by priority, lo limit :locks for update skip locked
), summed as (
    select span, priority, lo, hi, attempts, sum(hi - lo + 1) over w - (hi - lo + 1) as before,
           row_number() over w as place, bool_or(suspect) over w as tainted
    from seen window w as (order by priority, lo)
), used as (
    select span, priority, lo, hi, attempts, least(hi, lo + :batch - before - 1)::bigint as upto
    from summed where before < :batch and (place = 1 or not tainted)
), gone as (
    delete from stoker.ready r using used u where r.span = u.span and u.upto = u.hi
), cut as (
    update stoker.ready r set lo = u.upto + 1 from used u where r.span = u.span and u.upto < u.hi
), held as (
    insert into stoker.claims (token, worker, fire, mode, side_effect, max_attempts, los, his, attempts, taken,
                               started, dead_by)
    select :token, me.worker, me.fire, :mode, :side_effect, :max_attempts, all_used.los, all_used.his,
           all_used.attempts, all_used.taken, not :ahead or all_used.taken > 1, now() + make_interval(secs => :dead_after)
    from me, (select array_agg(lo) as los, array_agg(upto) as his, array_agg(attempts) as attempts,
                     sum(upto - lo + 1) as taken from used having count(*) > 0) as all_used
)
select t.id, u.attempts, t.max_attempts, t.payload::text as payload, u.priority, u.lo, u.upto, u.span
from me left join used u on true left join stoker.tasks t on t.id between u.lo and u.upto
