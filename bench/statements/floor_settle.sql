-- The floor's settlement of a batch of plain successes. No row: the claim was released meanwhile, and nothing changes.
with mine as (
    delete from stoker.claims where token = %(token)s and step = 0 returning token, fire, worker
), good as (
    insert into stoker.outcomes (lo, hi, fire, worker, token, attempt, seconds)
    select s.lo, s.hi, mine.fire, mine.worker, mine.token, s.attempt, %(seconds)s
    from mine, unnest(%(los)s::bigint[], %(his)s::bigint[], %(tries)s::integer[]) as s (lo, hi, attempt)
), me as (
    update stoker.workers w set done = w.done + %(done)s, busy_seconds = w.busy_seconds + %(done)s * %(seconds)s
    from mine where w.worker = mine.worker
)
select token from mine
