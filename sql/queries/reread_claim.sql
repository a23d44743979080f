-- A claim as claim_batch gave it, for a worker whose reply was lost.
select t.id, s.spent, t.max_attempts, t.payload::text as payload, t.priority, s.lo, s.hi as upto, s.lo as span
from stoker.claims c, unnest(c.los, c.his, c.attempts) as s (lo, hi, spent)
join stoker.tasks t on t.id between s.lo and s.hi
where c.token = :token
