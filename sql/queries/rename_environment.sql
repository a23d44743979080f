-- The schema is another environment's from now on, or, with an empty :name, nobody's.
with renamed as (
    update stoker.installation set environment = nullif(:name, '')
)
insert into stoker.events (actor, action, reason, detail)
values (:actor, 'environment renamed', :reason, json_build_object('to', :name::text))
