-- How long ago a watchdog last looked, and after how long it should have looked again. No row: none ever has.
select extract(epoch from now() - at)::float8 as age, expected_seconds
from stoker.heartbeats where component = 'watchdog' order by at desc limit 1
