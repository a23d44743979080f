-- A schedule as it is registered, with the last due time decided: to be run after lock_schedule.
select s.rule, s.since, clock_timestamp() as now, s.paused_by, s.pause_reason,
       (select max(last_due_at) from stoker.slots o where o.schedule = s.schedule) as decided_until
from stoker.schedules s where s.schedule = :schedule
