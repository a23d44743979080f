-- Take one task, whatever its turn, for a worker that is not fenced, if it is queued and may run: as claim_batch gives it.
-- No row: fenced. One row without spans: it is not there to be taken.
with me as (
    select worker, fire from stoker.workers
    where worker = :worker and fenced_at is null and exited_at is null for no key update
), asked as (
    select t.id, t.priority, t.payload, t.max_attempts, t.lane_key
    from me, stoker.tasks t
    where t.id = :task and t.mode = :mode and t.version <= :version and (t.expires_at is null or t.expires_at > now())
      and not exists (select from stoker.paused where mode in (:mode, '*'))
), taken as (
    select a.*, q.spent from asked a cross join lateral stoker.take_spanned(a.id) q where q.place is not null
), held as (
    insert into stoker.claims (token, worker, fire, mode, side_effect, max_attempts, los, his, attempts, taken,
                               lined, started, dead_by)
    select :token, me.worker, me.fire, :mode, :side_effect, :max_attempts, array[t.id], array[t.id], array[t.spent], 1,
           t.lane_key is not null, true, now() + make_interval(secs => :dead_after)
    from me, taken t
)
select case when t.id is not null then array[t.id] end as los, array[t.id] as his, array[t.spent] as attempts, t.priority,
       t.lane_key is not null as lined, 1 as tasks, coalesce(t.payload::text, 'null') as payloads,
       case when t.max_attempts is not null then array[t.max_attempts] end as caps
from me left join taken t on true
