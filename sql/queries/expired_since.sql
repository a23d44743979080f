-- Tasks that expired since the last note, by mode.
select t.mode, count(*) as count from stoker.expired e join stoker.tasks t on t.id = e.id
where e.expired_at > coalesce((select max(written_at) from stoker.notes), '-infinity') group by t.mode order by t.mode
