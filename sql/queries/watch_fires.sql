-- By lane: how long ago a fire last reached its note, and the fire that is active, with how long it is over its deadline.
select f.lane, extract(epoch from now() - max(f.closed_at))::float8 as note_age,
       max(f.fire) filter (where f.state in ('open', 'closing')) as active,
       max(extract(epoch from now() - f.deadline_at)::float8) filter (where f.state in ('open', 'closing')) as overdue
from stoker.fires f where f.state <> 'refused' and f.opened_at > now() - interval '400 days' group by f.lane order by f.lane
