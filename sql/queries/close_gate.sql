-- Nothing starts any more: the gate is a pause of every mode, and admission asks for it. No row: it is closed already.
with closed as (
    insert into stoker.paused (mode, actor, reason) values ('*', :actor, :reason) on conflict do nothing returning mode
), said as (
    insert into stoker.events (actor, action, reason) select :actor, 'gate closed', :reason from closed
)
select mode from closed
