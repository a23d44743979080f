-- End a claim, or shrink it to what is left, and give every other task of it a new place, under its token and step.
-- No row: the claim was released meanwhile, or this very settlement was already made. What is given back may be
-- neighbours by id alone: a span is of one kind and lies in one partition.
with over as (
    delete from stoker.claims where token = :token and step = :step and cardinality(:left_los::bigint[]) = 0
    returning token, fire, worker, dead_by
), cut as (
    update stoker.claims set los = :left_los, his = :left_his, attempts = :left_attempts, step = step + 1
    where token = :token and step = :step and cardinality(:left_los::bigint[]) > 0
    returning token, fire, worker, dead_by
), mine as (
    select * from over union all select * from cut
), good as (
    insert into stoker.outcomes (lo, hi, fire, worker, token, attempt, seconds, label, result)
    select s.lo, s.hi, mine.fire, mine.worker, mine.token, s.attempt, s.seconds, s.label, s.result::json
    from mine, unnest(:los::bigint[], :his::bigint[], :tries::integer[], :seconds::real[], :labels::text[],
                      :results::text[]) as s (lo, hi, attempt, seconds, label, result)
), bad as (
    select mine.token, mine.fire, mine.worker, mine.dead_by, e.*, t.mode, t.version, t.priority
    from mine, json_to_recordset(:ended::json) as e (id bigint, attempt integer, verdict text, error_kind text,
                                                     error text, seconds real, delay double precision)
    join stoker.tasks t using (id)
), tried as (
    insert into stoker.attempts (id, attempt, token, fire, worker, verdict, error_kind, error, seconds)
    select id, attempt, token, fire, worker, verdict, error_kind, error, seconds from bad
), dead as (
    insert into stoker.failed (id, attempts, fire, error_kind, error)
    select id, attempt, fire, error_kind, error from bad where verdict = 'failed'
), again as (
    insert into stoker.later (mode, version, priority, lo, hi, attempts, available_at)
    select mode, version, priority, id, id, attempt, now() + make_interval(secs => delay) from bad where verdict = 'retry'
), puzzling as (
    insert into stoker.unknown (id, attempts, fire, worker, token, dead_by, error_kind)
    select id, attempt, fire, worker, token, dead_by, error_kind from bad where verdict = 'unknown'
), given as (
    select t.id, t.mode, t.version, t.priority, s.attempts, t.tableoid,
           t.id - row_number() over (partition by t.mode, t.version, t.priority, s.attempts order by t.id) as island
    from mine, unnest(:free_los::bigint[], :free_his::bigint[], :free_attempts::integer[]) as s (lo, hi, attempts)
    join stoker.tasks t on t.id between s.lo and s.hi
), free as (
    insert into stoker.ready (mode, version, priority, lo, hi, attempts)
    select mode, version, priority, min(id), max(id), attempts
    from given group by mode, version, priority, attempts, tableoid, island
), said as (
    insert into stoker.outputs (id, attempt, token, output)
    select o.id, o.attempt, mine.token, o.output
    from mine, json_to_recordset(:outputs::json) as o (id bigint, attempt integer, output text)
), me as (
    update stoker.workers w
    set done = w.done + :done, failed = w.failed + :failed, retried = w.retried + :retried,
        busy_seconds = w.busy_seconds + :busy, tally = coalesce(:tally::json, w.tally)
    from mine where w.worker = mine.worker
)
select token from mine
