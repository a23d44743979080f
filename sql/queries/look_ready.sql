-- Without a lock: the oldest payload version, up to :version, that is claimable, and when the next task is due.
select (select min(version) from stoker.ready where mode = :mode and version <= :version) as ready_version,
       (select extract(epoch from min(available_at) - now())::float8 from stoker.later
         where mode = :mode and version <= :version) as due_in
