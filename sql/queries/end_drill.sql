-- Its slot is expected no more, and its incident is over; repeated it finds that again.
with ended as (
    delete from stoker.schedules where schedule = :name and drill_until is not null returning schedule
), over as (
    update stoker.incidents set resolved_at = now() where cause = :name and resolved_at is null returning incident
)
select incident from stoker.incidents where cause = :name
