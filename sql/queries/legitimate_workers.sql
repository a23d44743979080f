-- Of these workers, those that are known here, and whether each may still have processes: not left, not fenced.
select worker::text, exited_at is null and fenced_at is null as legitimate
from stoker.workers where worker = any(:workers::uuid[])
