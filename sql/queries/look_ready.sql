-- Without a lock: the oldest payload version, up to :version, that is claimable, and when the next task is due. None of
-- a paused mode is.
select (select min(version) from stoker.ready where mode = :mode and version <= :version
           and (expires_at is null or expires_at > now())) as ready_version,
       (select extract(epoch from min(available_at) - now())::float8 from stoker.later
         where mode = :mode and version <= :version) as due_in
where not exists (select from stoker.paused where mode in (:mode, '*'))
union all
select null, null where exists (select from stoker.paused where mode in (:mode, '*'))
