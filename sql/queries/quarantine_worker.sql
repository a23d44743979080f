-- Free what a worker held when a dump was made, and bury it. Unstarted tasks go back as they were. What had started may be
-- over by now: a person must say, of a side effect whether it happened. What was to be cancelled is. No attempt is spent.
with gone as (
    delete from stoker.claims where worker = :worker returning *
), spans as (
    select g.token, g.fire, g.worker, g.side_effect, g.started, g.suspect, g.dead_by, s.lo, s.hi, s.spent
    from gone g, unnest(g.los, g.his, g.attempts) as s (lo, hi, spent)
), free as (
    insert into stoker.ready (mode, version, priority, lo, hi, attempts, suspect, expires_at, lane_key)
    select t.mode, t.version, t.priority, s.lo, s.hi, s.spent, s.suspect, t.expires_at, t.lane_key
    from spans s join stoker.tasks t on t.id = s.lo where not s.started
    returning hi - lo + 1 as n
), ran as (
    select s.*, t.id, t.expires_at, (select r from stoker.cancel_requests r where r.id = t.id) as request
    from spans s join stoker.tasks t on t.id between s.lo and s.hi where s.started
), puzzling as (
    insert into stoker.unknown (id, attempts, fire, worker, token, dead_by, error_kind)
    select id, spent + 1, fire, worker, token, dead_by, 'restored' from ran where side_effect returning 1
), off as (
    insert into stoker.cancelled (id, attempts, fire, actor, reason)
    select id, spent, fire, (request).actor, (request).reason
    from ran where not side_effect and (request).id is not null returning id
), answered as (
    delete from stoker.cancel_requests where id = any(array(select id from off))
), asking as (
    insert into stoker.held (id, attempts, kind, question, expires_at, fire)
    select id, spent, 'restored', :question, expires_at, fire
    from ran where not side_effect and (request).id is null returning 1
), tried as (
    insert into stoker.attempts (id, attempt, token, fire, worker, verdict, error_kind, error)
    select id, spent + 1, token, fire, worker,
           case when side_effect then 'unknown' when (request).id is not null then 'cancelled' else 'held' end,
           'restored', :question
    from ran
), buried as (
    update stoker.workers set fenced_at = coalesce(fenced_at, now()), exited_at = coalesce(exited_at, now()),
        exit_reason = coalesce(exit_reason, 'lost'), exit_status = coalesce(exit_status, 'restored from a dump')
    where worker = :worker
)
select (select coalesce(sum(n), 0) from free)::bigint as unstarted, (select count(*) from asking) as held,
       (select count(*) from puzzling) as unknown, (select count(*) from off) as cancelled
