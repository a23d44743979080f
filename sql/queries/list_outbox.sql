-- Messages, newest first, without those that another tells.
select o.message, o.delivery_id, o.kind, o.channel, o.fire, o.state, o.created_at, o.state_at, o.attempts, o.in_doubt,
       o.last_error, c.retry_at, o.in_doubt and c.claimed_until > now() as is_being_sent,
       (select array_agg(m.fire order by m.fire) from stoker.outbox m
         where m.collapsed_into = o.message and m.kind = 'note') as fires
from stoker.outbox o left join stoker.channels c using (channel)
where (:state::text is null and o.collapsed_into is null or o.state = :state)
  and (:channel::text is null or o.channel = :channel)
order by o.message desc limit :limit
