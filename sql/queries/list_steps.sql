-- The steps of a task that are finished, in the order in which they were.
select name, attempt, finished_at, result from stoker.steps where id = :id order by finished_at, name
