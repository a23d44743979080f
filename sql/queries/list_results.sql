-- The results of a mode's done tasks, oldest first.
select o.lo as id, o.fire, o.label, t.payload, o.result from stoker.outcomes o join stoker.tasks t on t.id = o.lo
where t.mode = :mode and o.result is not null and (:fire::bigint is null or o.fire = :fire) order by o.lo
