-- What was found to grow with the queue or the history, and the indexes that stop it.

create index later_by_id on stoker.later (lo);
create index fires_by_day on stoker.fires (lane, day) where state <> 'refused';

-- Spans of one place do not overlap: the last that begins at or before an id holds it, or none does. A subquery rather
-- than a with: the planner sees through it, so that a page in the order of ids reads that page only. Claims have no index
-- by id; they are few, and read only for what stands nowhere else.
create or replace view stoker.task_queue as
select id, mode,
       case when finished_at is not null then 'done' when failed_at is not null then 'failed'
            when since is not null then 'unknown' when token is not null then 'in_progress'
            when ready or available_at is not null then 'queued' end as status,
       payload, priority, version, worker as claimed_by, claimed_at,
       coalesce(attempt, failed_attempts, unknown_attempts, spent + started::integer, ready_attempts, later_attempts) as attempts,
       coalesce(max_attempts, cap) as max_attempts,
       coalesce(available_at, created_at) as available_at, created_at,
       coalesce(finished_at, failed_at, since, claimed_at, created_at) as updated_at,
       coalesce(finished_at, failed_at) as finished_at,
       coalesce(fire, failed_fire, unknown_fire) as fire, seconds, label, result,
       coalesce(error_kind, unknown_kind) as error_kind, error as error_detail, suspect
from (
    select t.id, t.mode, t.version, t.priority, t.payload, t.max_attempts, t.created_at,
           r.span is not null as ready, r.attempts as ready_attempts, r.suspect,
           l.available_at, l.attempts as later_attempts,
           c.token, c.worker, c.claimed_at, c.started, c.spent, c.cap,
           o.finished_at, o.attempt, o.fire, o.worker as done_by, o.seconds, o.result, o.label,
           f.failed_at, f.attempts as failed_attempts, f.error_kind, f.error, f.fire as failed_fire,
           u.since, u.attempts as unknown_attempts, u.error_kind as unknown_kind, u.fire as unknown_fire
    from stoker.tasks t
    left join lateral (select span, attempts, suspect, hi from stoker.ready
                        where mode = t.mode and version = t.version and priority = t.priority and lo <= t.id
                        order by lo desc limit 1) r on r.hi >= t.id
    left join lateral (select available_at, attempts, hi from stoker.later
                        where lo <= t.id order by lo desc limit 1) l on l.hi >= t.id
    left join lateral (select finished_at, attempt, fire, worker, seconds, result, label, hi from stoker.outcomes
                        where lo <= t.id order by lo desc limit 1) o on o.hi >= t.id
    left join stoker.failed f on f.id = t.id
    left join stoker.unknown u on u.id = t.id
    left join lateral (select token, worker, claimed_at, started, s.spent, k.max_attempts as cap
                         from stoker.claims k, unnest(k.los, k.his, k.attempts) as s (lo, hi, spent)
                        where r.span is null and l.available_at is null and o.finished_at is null and f.id is null
                          and u.id is null and t.id between s.lo and s.hi limit 1) c on true
) as stand;
