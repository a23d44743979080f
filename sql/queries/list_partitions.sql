-- The numbers of the partitions that lie wholly before the newest id, from :first on, and the tables of each.
select substring(c.relname from '[0-9]+$')::bigint as number, array_agg(c.relname::text order by c.relname)
from pg_inherits i join pg_class c on c.oid = i.inhrelid
where i.inhparent in ('stoker.tasks'::regclass, 'stoker.outcomes'::regclass, 'stoker.attempts'::regclass,
                      'stoker.outputs'::regclass)
  and c.relname ~ '_[0-9]+$' and substring(c.relname from '[0-9]+$')::bigint >= :first
  and substring(c.relname from '[0-9]+$')::bigint < (select last_value / :ids from stoker.task_ids)
group by 1 order by 1 limit :limit
