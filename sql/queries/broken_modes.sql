-- Modes whose newest worker that left could not run its handler, in which fire, and why.
select asked.mode, newest.fire, newest.exit_status from unnest(:modes::text[]) as asked (mode), lateral (
    select exit_reason, fire, exit_status from stoker.workers where mode = asked.mode and exit_reason is not null
    order by started_at desc limit 1) as newest
where exit_reason = 'broken'
