-- What is sent next by a channel that is held: the oldest, but after four failures the others first. From here until its end
-- is recorded it is in doubt; whether it was so before is returned.
with next as (
    select message, in_doubt from stoker.outbox
    where channel = :channel and state = 'queued' and kind in ('note', 'digest') and available_at <= now()
    order by attempts / 4, created_at, message limit 1 for update
)
update stoker.outbox o set attempts = o.attempts + 1, in_doubt = true, tried_at = now() from next n where o.message = n.message
returning o.message, o.delivery_id, o.kind, o.fire, o.attempts, n.in_doubt, extract(epoch from clock_timestamp())::float8
