-- Who was heard of, the newest first, and whether the next heartbeat is late; batches in a row that failed, and why.
select component, instance, at, extract(epoch from now() - at)::float8 as seconds, expected_seconds,
       now() - at > make_interval(secs => expected_seconds) as is_late, modes,
       failures, error
from stoker.heartbeats order by at desc
