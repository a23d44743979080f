-- End a claim, or shrink it to what is left, and give every other task of it a new place, under its token and step.
-- No row: the claim was released meanwhile, or this very settlement was already made. What is given back may be
-- neighbours by id alone: a span is of one kind and lies in one partition. A request to cancel wins over every place
-- but the end.
with over as (
    delete from stoker.claims where token = :token and step = :step and cardinality(:left_los::bigint[]) = 0
    returning token, fire, worker, dead_by, suspect
), cut as (
    update stoker.claims set los = :left_los, his = :left_his, attempts = :left_attempts, step = step + 1
    where token = :token and step = :step and cardinality(:left_los::bigint[]) > 0
    returning token, fire, worker, dead_by, suspect
), mine as (
    select * from over union all select * from cut
), good as (
    insert into stoker.outcomes (lo, hi, fire, worker, token, attempt, seconds, label, result)
    select s.lo, s.hi, mine.fire, mine.worker, mine.token, s.attempt, s.seconds, s.label, s.result::json
    from mine, unnest(:los::bigint[], :his::bigint[], :tries::integer[], :seconds::real[], :labels::text[],
                      :results::text[]) as s (lo, hi, attempt, seconds, label, result)
), told as (
    select mine.token, mine.fire, mine.worker, mine.dead_by, e.*, t.mode, t.version, t.priority, t.expires_at, t.lane_key,
           (select r from stoker.cancel_requests r where r.id = e.id) as request
    from mine, json_to_recordset(:ended::json) as e (id bigint, attempt integer, verdict text, error_kind text,
                                                     error text, seconds real, delay double precision,
                                                     until timestamptz)
    join stoker.tasks t using (id)
), bad as (
    select token, fire, worker, dead_by, id, attempt, error_kind, error, seconds, delay, until, mode, version, priority, expires_at,
           lane_key, (request).actor, (request).reason, attempt - (verdict in ('snooze', 'held'))::integer as spent,
           case when (request).id is not null and verdict in ('retry', 'snooze', 'held') then 'cancelled'
                else verdict end as verdict
    from told
), tried as (
    insert into stoker.attempts (id, attempt, token, fire, worker, verdict, error_kind, error, seconds)
    select id, attempt, token, fire, worker, verdict, coalesce(error_kind, verdict), error, seconds from bad
), dead as (
    insert into stoker.failed (id, attempts, fire, error_kind, error)
    select id, attempt, fire, error_kind, error from bad where verdict = 'failed'
), again as (
    insert into stoker.later (mode, version, priority, lo, hi, attempts, available_at, expires_at, lane_key)
    select mode, version, priority, id, id, spent, coalesce(until, now() + make_interval(secs => delay)), expires_at, lane_key
    from bad where verdict in ('retry', 'snooze')
), puzzling as (
    insert into stoker.unknown (id, attempts, fire, worker, token, dead_by, error_kind)
    select id, attempt, fire, worker, token, dead_by, error_kind from bad where verdict = 'unknown'
), asking as (
    insert into stoker.held (id, attempts, kind, question, expires_at, fire)
    select id, spent, 'question', left(error, 4000), expires_at, fire from bad where verdict = 'held'
), back as (
    select t.id, t.mode, t.version, t.priority, t.expires_at, t.lane_key, t.tableoid, s.attempts, mine.fire, mine.suspect,
           (select r from stoker.cancel_requests r where r.id = t.id) as request
    from mine, unnest(:free_los::bigint[], :free_his::bigint[], :free_attempts::integer[]) as s (lo, hi, attempts)
    join stoker.tasks t on t.id between s.lo and s.hi
), given as (
    select *, (request).actor, (request).reason,
           id - row_number() over (partition by mode, version, priority, expires_at, lane_key, attempts, (request).id is null
                                   order by id) as island
    from back
), free as (
    insert into stoker.ready (mode, version, priority, lo, hi, attempts, suspect, expires_at, lane_key)
    select mode, version, priority, min(id), max(id), attempts, suspect, expires_at, lane_key from given where actor is null
    group by mode, version, priority, attempts, suspect, expires_at, lane_key, tableoid, island
), off as (
    insert into stoker.cancelled (id, attempts, fire, actor, reason)
    select id, attempt, fire, coalesce(actor, 'worker'), coalesce(reason, error) from bad where verdict = 'cancelled'
    union all select id, attempts, fire, actor, reason from given where actor is not null
    returning id
), answered as (
    delete from stoker.cancel_requests where id = any(array(select id from off))
), said as (
    insert into stoker.outputs (id, attempt, token, output)
    select o.id, o.attempt, mine.token, o.output
    from mine, json_to_recordset(:outputs::json) as o (id bigint, attempt integer, output text)
), me as (
    update stoker.workers w
    set done = w.done + :done, failed = w.failed + :failed,
        retried = w.retried + :retried - (select count(*) from told where verdict = 'retry' and (request).id is not null),
        busy_seconds = w.busy_seconds + :busy, tally = coalesce(:tally::json, w.tally)
    from mine where w.worker = mine.worker
)
select token from mine
