-- Lanes of which fires are expected and none is active: every how many seconds, and for how long no fire has reached its note.
select l.lane, l.expected_seconds,
       extract(epoch from now() - greatest(l.expected_since, max(f.closed_at)))::float8 as silent,
       coalesce(max(f.closed_at) >= l.expected_since, false) as ever
from stoker.lanes l left join stoker.fires f on f.lane = l.lane and f.state = 'closed'
where l.expected_seconds is not null
  and not exists (select from stoker.fires a where a.lane = l.lane and a.state in ('open', 'closing'))
group by l.lane, l.expected_seconds, l.expected_since order by l.lane
