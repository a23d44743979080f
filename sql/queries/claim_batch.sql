-- Take up to :batch tasks of one mode and version, after the mark, for a worker that is not fenced, and renew its lease
-- when a third of it is over: a lock is enough against a fence, and leaves no row version behind.
-- No row: fenced. One row without spans: nothing was free. A span is found again by its immutable id, never by lo.
-- The payloads come as one text for every :chunk tasks, in the order of the spans: a row a task would cost more than it.
-- Only a claim of one waits for start_claim: the tasks of a larger one may be handed over as soon as it is made.
with me as (
    select worker, fire, lease_until from stoker.workers
    where worker = :worker and fenced_at is null and exited_at is null for no key update
), renewed as (
    update stoker.workers w set lease_until = now() + make_interval(secs => :lease)
    from me where w.worker = me.worker and me.lease_until < now() + make_interval(secs => :lease * 2 / 3)
), seen as (
    select span, priority, lo, hi, attempts, suspect, lane_key is not null as lined from stoker.ready
    where mode = :mode and version = :version and (priority, lo) > (:mark_priority, :mark_lo)
      and (expires_at is null or expires_at > now())
      and exists (select from me) and not exists (select from stoker.paused where mode in (:mode, '*'))
    order by priority, lo limit :locks for update skip locked
), summed as (
    select span, priority, lo, hi, attempts, suspect, lined, (sum(hi - lo + 1) over w - (hi - lo + 1))::bigint as before,
           row_number() over w as place, bool_or(suspect) over w as tainted
    from seen window w as (order by priority, lo)
), used as (
    select span, priority, lo, hi, attempts, suspect, lined, before, least(hi, lo + :batch - before - 1)::bigint as upto
    from summed where before < :batch and (place = 1 or not tainted)
), gone as (
    delete from stoker.ready r using used u where r.span = u.span and u.upto = u.hi
), cut as (
    update stoker.ready r set lo = u.upto + 1 from used u where r.span = u.span and u.upto < u.hi
), batch as (
    select array_agg(lo) as los, array_agg(upto) as his, array_agg(attempts) as attempts, max(priority) as priority,
           sum(upto - lo + 1) as taken, bool_or(lined) as lined, bool_or(suspect) as suspect
    from (select * from used order by priority, lo) as in_order having count(*) > 0
), held as (
    insert into stoker.claims (token, worker, fire, mode, side_effect, max_attempts, los, his, attempts, taken,
                               lined, suspect, started, dead_by)
    select :token, me.worker, me.fire, :mode, :side_effect, :max_attempts, b.los, b.his, b.attempts, b.taken,
           b.lined, b.suspect, not :ahead or b.taken > 1, now() + make_interval(secs => :dead_after)
    from me, batch b
), chunks as (
    select place / :chunk as chunk, count(*) as tasks,
           string_agg(coalesce(payload::text, 'null'), ',' order by place) as payloads,
           case when count(max_attempts) > 0 then array_agg(max_attempts order by place) end as caps
    from (select (u.before + t.id - u.lo)::integer as place, t.payload, t.max_attempts
          from used u join stoker.tasks t on t.id between u.lo and u.upto) as placed
    group by 1
)
select b.los, b.his, b.attempts, b.priority, b.lined, c.tasks, c.payloads, c.caps
from me left join batch b on true left join chunks c on true
order by c.chunk
