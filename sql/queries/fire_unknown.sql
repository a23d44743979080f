select t.mode, count(*) from stoker.attempts a join stoker.tasks t on t.id = a.id
where a.fire = :fire and a.verdict = 'unknown' group by t.mode
