-- Modes whose newest worker that left could not run its handler.
select asked.mode from unnest(:modes::text[]) as asked (mode), lateral (
    select exit_reason from stoker.workers where mode = asked.mode and exit_reason is not null
    order by started_at desc limit 1) as newest
where exit_reason = 'broken'
