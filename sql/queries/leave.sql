-- A worker's own last word. Another's word stands if it came first.
update stoker.workers
set exited_at = now(), exit_reason = :reason, exit_status = :status, respawns = :respawns,
    peak_memory_bytes = :peak_memory, cpu_seconds = :cpu, db_retries = :db_retries
where worker = :worker and exited_at is null
returning worker
