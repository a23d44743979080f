-- One task, claimable now or at :available_at.
with task as (
    insert into stoker.tasks (mode, version, priority, max_attempts, payload)
    values (:mode, :version, :priority, :max_attempts, :payload::json)
    returning id, mode, version, priority
), now_ready as (
    insert into stoker.ready (mode, version, priority, lo, hi)
    select mode, version, priority, id, id from task where coalesce(:available_at::timestamptz <= now(), true)
), later as (
    insert into stoker.later (mode, version, priority, lo, hi, available_at)
    select mode, version, priority, id, id, :available_at from task where :available_at::timestamptz > now()
)
select id from task
