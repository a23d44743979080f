-- The newest id given out, the number of the highest partition there is, and whether this role may make another.
select last_value,
       (select max(substring(c.relname from '[0-9]+$')::bigint)
          from pg_inherits i join pg_class c on c.oid = i.inhrelid
         where i.inhparent = 'stoker.tasks'::regclass and c.relname ~ '_[0-9]+$') as highest,
       (select pg_has_role(c.relowner, 'usage') from pg_class c where c.oid = 'stoker.tasks'::regclass) as is_owner
from stoker.task_ids
