-- A message was received, and with it all that it tells. That holds also if its channel was taken over meanwhile.
with freed as (
    update stoker.channels set token = null, claimed_until = null, failures = 0, retry_at = null
    where channel = :channel and token = :token
)
update stoker.outbox set state = 'delivered', state_at = now(), in_doubt = false, last_error = left(:remark, 500)
where (message = :message and state = 'queued') or (collapsed_into = :message and state = 'collapsed')
returning message
