select worker, mode, ordinal, started_at, first_task_at, exited_at, exit_reason, exit_status, done, failed, retried,
       respawns, peak_memory_bytes, cpu_seconds, owner, db_retries
from stoker.workers where fire = :fire order by ordinal, worker
