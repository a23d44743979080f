-- Of each schedule with a finish_within: the oldest slot whose fire has not ended, and the seconds since that was due.
select s.schedule, min(o.fire) as fire, max(extract(epoch from now() - o.due_at))::float8 as due_seconds,
       (s.rule ->> 'finish')::float8 as finish_seconds
from stoker.schedules s join stoker.slots o using (schedule) join stoker.fires f on f.fire = o.fire
where s.rule ->> 'finish' is not null and f.state in ('open', 'closing')
group by s.schedule, s.rule ->> 'finish' order by s.schedule
