select t.mode, count(*) as count, min(u.id) as task from stoker.unknown u join stoker.tasks t on t.id = u.id group by t.mode order by t.mode
