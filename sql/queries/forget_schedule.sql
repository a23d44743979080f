-- Nobody fires it any more, so nobody waits for it; what became of its slots stays. No row: nobody knows it.
with gone as (
    delete from stoker.schedules where schedule = :schedule and drill_until is null returning schedule
)
insert into stoker.events (actor, action, reason, detail)
select :actor, 'forget schedule', :reason, json_build_object('schedule', schedule) from gone returning actor
