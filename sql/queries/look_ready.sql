-- Without a lock: is anything claimable there, and when is the next task due?
select exists (select from stoker.ready where mode = :mode and version = any(:versions)) as any_ready,
       (select extract(epoch from min(available_at) - now())::float8 from stoker.later where mode = :mode) as due_in
