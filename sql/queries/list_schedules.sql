select s.schedule, s.rule, s.since, now() as now,
       (select max(last_due_at) from stoker.slots o where o.schedule = s.schedule) as decided_until
from stoker.schedules s order by s.schedule
