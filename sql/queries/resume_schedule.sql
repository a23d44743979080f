-- No row: it is not paused.
with asked as (
    update stoker.schedules set paused_by = null, paused_at = null, pause_reason = null
    where schedule = :schedule and paused_by is not null returning schedule
)
insert into stoker.events (actor, action, reason, detail)
select :actor, 'resume schedule', :reason, json_build_object('schedule', schedule) from asked returning actor
