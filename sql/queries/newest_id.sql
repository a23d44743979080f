-- The newest id given out, and the number of the highest partition there is.
select last_value,
       (select max(substring(c.relname from '[0-9]+$')::bigint)
          from pg_inherits i join pg_class c on c.oid = i.inhrelid
         where i.inhparent = 'stoker.tasks'::regclass and c.relname ~ '_[0-9]+$') as highest
from stoker.task_ids
