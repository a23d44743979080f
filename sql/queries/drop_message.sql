-- Give up a message that was not delivered, or all of a channel, and what they tell. No row: it is not there, or it is over.
with dropped as (
    update stoker.outbox set state = 'dropped', state_at = now()
    where (message = :message::bigint or channel = :channel::text) and state in ('queued', 'dead', 'held') returning message, channel
), told as (
    update stoker.outbox set state = 'dropped', state_at = now()
    where collapsed_into in (select message from dropped) and state = 'collapsed'
)
insert into stoker.events (actor, action, reason, detail)
select :actor, 'message dropped', :reason, json_build_object('message', message, 'channel', channel) from dropped
returning (detail ->> 'message')::bigint
