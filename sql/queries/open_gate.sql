-- Things may start again. No row: it was not closed.
with opened as (
    delete from stoker.paused where mode = '*' returning mode
), said as (
    insert into stoker.events (actor, action, reason) select :actor, 'gate opened', :reason from opened
)
select mode from opened
