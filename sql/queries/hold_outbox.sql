-- After a restore: what waited to be sent was perhaps sent since the dump; nothing of it goes out before a person says so.
with freed as (
    update stoker.channels set token = null, claimed_until = null
)
update stoker.outbox set state = 'held', state_at = now() where state = 'queued' returning message
