-- No row: it is paused already, or nobody knows it.
with asked as (
    update stoker.schedules set paused_by = :actor, paused_at = now(), pause_reason = :reason
    where schedule = :schedule and paused_by is null returning schedule
)
insert into stoker.events (actor, action, reason, detail)
select :actor, 'pause schedule', :reason, json_build_object('schedule', schedule) from asked returning actor
