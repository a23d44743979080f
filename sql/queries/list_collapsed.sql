-- The notes that a digest tells, oldest first.
select n.fire, f.lane, n.verdict, f.closed_at, count(*) over () as total
from stoker.outbox o join stoker.notes n on n.fire = o.fire join stoker.fires f on f.fire = o.fire
where o.collapsed_into = :message and o.kind = 'note' order by n.fire limit :limit
