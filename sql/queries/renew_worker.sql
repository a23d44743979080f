-- Renew a worker's lease. No row: it is fenced and must stop.
update stoker.workers set lease_until = now() + make_interval(secs => :lease)
where worker = :worker and fenced_at is null and exited_at is null
returning worker
