-- End a claim whose tasks were all plainly done. No row: the claim was released meanwhile, and nothing changes.
with mine as (
    delete from stoker.claims where token = :token and step = :step returning token, fire, worker
), good as (
    insert into stoker.outcomes (lo, hi, fire, worker, token, attempt, seconds)
    select s.lo, s.hi, mine.fire, mine.worker, mine.token, s.attempt, s.seconds
    from mine, unnest(:los::bigint[], :his::bigint[], :tries::integer[], :seconds::real[]) as s (lo, hi, attempt, seconds)
), me as (
    update stoker.workers w set done = w.done + :done, busy_seconds = w.busy_seconds + :busy
    from mine where w.worker = mine.worker
)
select token from mine
