-- Free what a lost worker held, and bury it. Unstarted tasks go back as they were. A claim of one is charged; the tasks
-- of a larger one are suspect, to be claimed alone. A side effect becomes unknown. What was to be cancelled is. Counts
-- tell what was done.
with gone as (
    delete from stoker.claims where worker = :worker returning *
), spans as (
    select g.token, g.fire, g.worker, g.side_effect, g.max_attempts, g.taken, g.started, g.suspect, g.dead_by, s.lo, s.hi, s.spent
    from gone g, unnest(g.los, g.his, g.attempts) as s (lo, hi, spent)
), free as (
    insert into stoker.ready (mode, version, priority, lo, hi, attempts, suspect, expires_at, lane_key)
    select t.mode, t.version, t.priority, s.lo, s.hi, s.spent, s.suspect, t.expires_at, t.lane_key
    from spans s join stoker.tasks t on t.id = s.lo where not s.started
    returning hi - lo + 1 as n
), ran as (
    select s.*, t.id, t.mode, t.version, t.priority, t.expires_at, t.lane_key, s.side_effect or s.taken = 1 as charged,
           s.spent + 1 >= coalesce(t.max_attempts, s.max_attempts) as last,
           (select r from stoker.cancel_requests r where r.id = t.id) as request
    from spans s join stoker.tasks t on t.id between s.lo and s.hi where s.started
), puzzling as (
    insert into stoker.unknown (id, attempts, fire, worker, token, dead_by, error_kind)
    select id, spent + 1, fire, worker, token, dead_by, :kind from ran where side_effect returning 1
), dead as (
    insert into stoker.failed (id, attempts, fire, error_kind, error)
    select id, spent + 1, fire, :kind, :error from ran where charged and last and not side_effect and (request).id is null returning 1
), off as (
    insert into stoker.cancelled (id, attempts, fire, actor, reason)
    select id, spent + charged::integer, fire, (request).actor, (request).reason
    from ran where not side_effect and (request).id is not null returning id
), answered as (
    delete from stoker.cancel_requests where id = any(array(select id from off))
), again as (
    insert into stoker.ready (mode, version, priority, lo, hi, attempts, suspect, expires_at, lane_key)
    select mode, version, priority, id, id, spent + charged::integer, not charged, expires_at, lane_key
    from ran where not side_effect and not (charged and last) and (request).id is null returning suspect
), tried as (
    insert into stoker.attempts (id, attempt, token, fire, worker, verdict, error_kind, error)
    select id, spent + 1, token, fire, worker,
           case when side_effect then 'unknown' when (request).id is not null then 'cancelled' when last then 'failed'
                else 'retry' end,
           :kind, :error
    from ran where charged
), counts as (
    select (select coalesce(sum(n), 0) from free)::bigint as unstarted, (select count(*) from puzzling) as unknown,
           (select count(*) from dead) as failed, (select count(*) from again where not suspect) as charged,
           (select count(*) from again where suspect) as suspect
), buried as (
    update stoker.workers w
    set fenced_at = coalesce(w.fenced_at, now()), exited_at = coalesce(w.exited_at, now()),
        exit_reason = coalesce(w.exit_reason, 'lost'), exit_status = coalesce(w.exit_status, :status),
        failed = w.failed + counts.failed, retried = w.retried + counts.charged
    from counts
    where w.worker = :worker and (w.exited_at is null or exists (select from gone)) returning w.worker, w.fire
)
select b.fire, c.unstarted, c.unknown, c.failed, c.charged, c.suspect from buried b, counts c
