-- Who was heard of, the newest first, and whether the next heartbeat is late.
select component, instance, at, extract(epoch from now() - at)::float8 as seconds, expected_seconds,
       now() - at > make_interval(secs => expected_seconds) as is_late, modes
from stoker.heartbeats order by at desc
