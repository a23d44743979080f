-- Fires that are not closed, with whether their lease is over by this clock.
select fire, owner, closer::text, lease_until < now() as lapsed
from stoker.fires where state in ('open', 'closing') and (:lane::text is null or lane = :lane) order by fire
