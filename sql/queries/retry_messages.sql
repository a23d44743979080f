-- Queue again, with all their tries, messages that are dead or held, or at once those that wait; their channels rest no more.
with asked as (
    update stoker.outbox set state = 'queued', state_at = now(), available_at = now(), attempts = 0
    where state in ('queued', 'dead', 'held') and (message = any(:messages::bigint[]) or state = any(:states::text[]))
    returning message, channel
), woken as (
    update stoker.channels set retry_at = null, failures = 0 where channel in (select channel from asked)
)
insert into stoker.events (actor, action, reason, detail)
select :actor, 'message retried', :reason, json_build_object('message', message, 'channel', channel) from asked
returning (detail ->> 'message')::bigint
