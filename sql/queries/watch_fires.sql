-- By lane: how long ago a fire last reached its note by itself, and the fire that is active, with how long it is over its
-- deadline.
select l.lane, extract(epoch from now() - last.closed_at)::float8 as note_age, a.fire as active,
       extract(epoch from now() - a.deadline_at)::float8 as overdue
from stoker.lanes l left join lateral (
    select f.closed_at from stoker.fires f join stoker.notes n using (fire)
    where f.lane = l.lane and f.state <> 'refused' and n.facts ->> 'ended' not in ('reaped', 'restored')
    order by f.opened_at desc limit 1
) as last on true left join stoker.fires a on a.lane = l.lane and a.state in ('open', 'closing')
order by l.lane
