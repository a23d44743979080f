select f.fire, f.lane, f.state, f.refusal, f.reason, f.opened_at, f.closed_at, n.verdict
from stoker.fires f left join stoker.notes n using (fire)
where (:lane::text is null or f.lane = :lane) order by f.fire desc limit :limit
