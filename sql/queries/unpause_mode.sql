-- No row: it is not paused.
with asked as (
    delete from stoker.paused where mode = :mode returning mode
)
insert into stoker.events (actor, action, mode, reason) select :actor, 'unpause', mode, :reason from asked returning mode
