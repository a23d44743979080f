select f.fire, f.lane, f.state, f.refusal, f.reason, f.opened_at, f.deadline_at, f.closing_at, f.closed_at, f.code_version,
       f.interlocks, f.plan, f.sweep, n.verdict
from stoker.fires f left join stoker.notes n using (fire)
where :fire::bigint is null or f.fire = :fire order by f.fire desc limit 1
