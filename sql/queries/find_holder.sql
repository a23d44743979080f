-- Who has locked rows that admission needs, for longest: a session that forgot its transaction, most often.
select a.pid, a.application_name, a.state, to_char(a.xact_start at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SS') as since
from pg_locks l join pg_stat_activity a using (pid)
where l.locktype = 'relation' and l.granted and l.mode <> 'AccessShareLock' and l.pid <> pg_backend_pid()
  and l.database = (select oid from pg_database where datname = current_database())
  and l.relation in ('stoker.lanes'::regclass, 'stoker.schedules'::regclass)
order by a.xact_start nulls last limit 1
