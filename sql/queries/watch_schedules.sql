-- Schedules as they are registered, with the last due time decided; people hold some. A drill's is seen by that drill alone.
select s.schedule, s.rule, s.since, now() as now,
       (select max(last_due_at) from stoker.slots o where o.schedule = s.schedule) as decided_until,
       s.paused_by is not null as is_paused
from stoker.schedules s where case when :drill::text is null then s.drill_until is null else s.schedule = :drill end
order by s.schedule
