-- What people did, newest first.
select event, at, actor, action, task, mode, reason, detail from stoker.events
where (:task::bigint is null or task = :task) order by event desc limit :limit
