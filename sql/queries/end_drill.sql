with ended as (
    delete from stoker.schedules where schedule = :name and drill_until is not null returning schedule
)
update stoker.incidents set resolved_at = now() where cause = :name and resolved_at is null returning incident
