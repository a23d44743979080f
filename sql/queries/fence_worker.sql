-- No claim can follow. With :only_lapsed, only if the lease is still over: who renews is never robbed.
update stoker.workers set fenced_at = coalesce(fenced_at, now())
where worker = :worker and exited_at is null and (not :only_lapsed or lease_until < now())
returning worker
