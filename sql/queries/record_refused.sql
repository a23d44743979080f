-- A message was not received, or nobody knows; its channel rests for :rest seconds, or not at all if the message is given up.
-- No row: somebody else has the channel by now.
with freed as (
    update stoker.channels
    set token = null, claimed_until = null, retry_at = now() + make_interval(secs => :rest::float8),
        failures = failures + (:rest::float8 is not null)::int
    where channel = :channel and token = :token returning channel
)
update stoker.outbox set state = :state, state_at = now(), in_doubt = :in_doubt, last_error = left(:error, 500)
where message = :message and state = 'queued' and channel in (select channel from freed) returning message
