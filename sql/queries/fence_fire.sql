-- No claim of this fire's workers can follow.
update stoker.workers set fenced_at = now()
where fire = :fire and fenced_at is null and exited_at is null returning worker
