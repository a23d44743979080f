-- Modes whose newest worker that left could not run its handler.
select mode from (select distinct on (mode) mode, exit_reason from stoker.workers
                   where mode = any(:modes::text[]) and exit_reason is not null order by mode, started_at desc) as newest
where exit_reason = 'broken'
