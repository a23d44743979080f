-- Whoever was heard of: when first and last, and how many seconds it has been silent, by a clock that did not leap and a server
-- that was there to be told.
select h.component, h.instance, h.began_at, h.at, h.expected_seconds, h.beats,
       extract(epoch from now() - greatest(h.at, i.leapt_at, pg_postmaster_start_time()))::float8 as silent_seconds
from stoker.heartbeats h cross join stoker.installation i order by h.component, h.at, h.instance
