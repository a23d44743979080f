-- Take a channel for one message: nobody else sends by it until the lease is over. No row: nothing is due, somebody has it,
-- it rests after a failure, or the gate is closed.
update stoker.channels set token = :token, claimed_until = now() + make_interval(secs => :lease)
where channel = (
    select c.channel from stoker.channels c
    where c.channel = :channel and (c.retry_at is null or c.retry_at <= now())
      and (c.claimed_until is null or c.claimed_until < now() or c.token = :token)
      and exists (select from stoker.outbox o where o.channel = c.channel and o.state = 'queued' and o.available_at <= now())
      and not exists (select from stoker.paused where mode = '*')
    for update of c skip locked)
returning failures
