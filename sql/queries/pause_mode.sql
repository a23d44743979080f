-- No row: it is paused already.
with asked as (
    insert into stoker.paused (mode, actor, reason) values (:mode, :actor, :reason) on conflict do nothing returning mode
)
insert into stoker.events (actor, action, mode, reason) select :actor, 'pause', mode, :reason from asked returning mode
