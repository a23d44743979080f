-- What is wrong, the newest first, or also what was; who has taken it, and the channels that did not take its last page.
select i.incident, i.cause, i.words, i.opened_at, i.resolved_at, i.pages, i.paged_at, i.escalated_at, i.acked_by, i.acked_at,
       i.ack_reason, coalesce(f.failing, '{}') as failing
from stoker.incidents i left join lateral (
    select json_object_agg(d.channel, json_build_object('attempts', d.attempts, 'failure', d.failure)) as failing
    from stoker.pages p join stoker.page_deliveries d using (page)
    where p.incident = i.incident and d.state = 'waiting' and d.failure is not null
) f on true
where :all or i.resolved_at is null order by i.incident desc limit :limit
