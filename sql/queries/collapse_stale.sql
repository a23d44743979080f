-- If several notes have waited by a channel for longer than :stale seconds, one message tells them all. What may have been
-- received already stays a message of its own, so that its receiver knows it again. To be run by who holds the channel.
with stale as (
    select message, kind, attempts, created_at from stoker.outbox
    where channel = :channel and state = 'queued' and kind in ('note', 'digest') and not in_doubt
      and created_at < now() - make_interval(secs => :stale)
    for update
), made as (
    insert into stoker.outbox (kind, channel, attempts, created_at)
    select 'digest', :channel, max(attempts), min(created_at) from stale having count(*) > 1 returning message
), followed as (
    update stoker.outbox o set collapsed_into = m.message from made m
    where o.collapsed_into in (select message from stale where kind = 'digest')
)
update stoker.outbox o set state = 'collapsed', state_at = now(), collapsed_into = m.message from made m
where o.message in (select message from stale) returning o.message
