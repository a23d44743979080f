select s.schedule, s.due_at, s.last_due_at, s.state, s.reason, s.fire, s.decided_at
from stoker.slots s where :schedule::text is null or s.schedule = :schedule
order by s.due_at desc, s.schedule limit :limit
