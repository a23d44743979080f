-- The channels by which a fire's note has not been received yet, and why, as far as it is known.
select o.channel, coalesce(d.state, o.state) as state, coalesce(d.last_error, o.last_error) as error
from stoker.outbox o left join stoker.outbox d on d.message = o.collapsed_into
where o.fire = :fire and o.kind = 'note' and o.state <> 'delivered' order by o.channel
