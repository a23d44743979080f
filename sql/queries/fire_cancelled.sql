-- Tasks cancelled by the settlements and releases of a fire, by mode.
select t.mode, count(*) as count from stoker.cancelled c join stoker.tasks t on t.id = c.id
where c.fire = :fire group by t.mode order by t.mode
