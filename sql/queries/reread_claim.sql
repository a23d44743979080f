-- A claim as claim_batch gave it, for a worker whose reply was lost. One row without an id: nothing was claimed, or it
-- was released since.
select t.id, s.spent, t.max_attempts, t.payload::text as payload, t.priority, s.lo, s.hi as upto, s.lo as span
from (select :token::uuid as token) as asked
left join stoker.claims c using (token)
left join lateral unnest(c.los, c.his, c.attempts) as s (lo, hi, spent) on true
left join stoker.tasks t on t.id between s.lo and s.hi
