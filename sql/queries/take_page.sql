-- The page that is sent next by this channel: the oldest, but after four failures the others first. Whoever takes it sends it,
-- and if that one dies, another one does: nobody knows then whether it arrived.
with next as (
    select page, channel from stoker.page_deliveries d
    where channel = :channel and state = 'waiting' and (sending_until is null or sending_until < now())
      and (:incident::bigint is null or page in (select page from stoker.pages where incident = :incident))
    order by attempts / 4, page limit 1 for update skip locked
)
update stoker.page_deliveries d set sending_until = now() + interval '2 min', attempts = d.attempts + 1,
    in_doubt = d.in_doubt or d.sending_until is not null
from next n, stoker.pages p join stoker.incidents i using (incident)
where d.page = n.page and d.channel = n.channel and p.page = n.page
returning d.page, p.action, i.cause, p.words, p.number, p.delivery_id::text, i.opened_at, i.resolved_at, d.attempts
