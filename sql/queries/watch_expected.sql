-- Lanes of which fires are expected and none is active: every how many seconds, and for how long no fire has reached its note by
-- itself.
select l.lane, l.expected_seconds,
       extract(epoch from now() - greatest(l.expected_since, last.closed_at))::float8 as silent,
       coalesce(last.closed_at >= l.expected_since, false) as ever
from stoker.lanes l left join lateral (
    select f.closed_at from stoker.fires f join stoker.notes n using (fire)
    where f.lane = l.lane and f.state <> 'refused' and n.facts ->> 'ended' not in ('reaped', 'restored')
    order by f.opened_at desc limit 1
) as last on true
where l.expected_seconds is not null
  and not exists (select from stoker.fires a where a.lane = l.lane and a.state in ('open', 'closing'))
order by l.lane
