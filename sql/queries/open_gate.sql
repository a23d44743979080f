-- Things may start again: what was due meanwhile is late from now on. No row: it was not closed.
with opened as (
    delete from stoker.paused where mode = '*' returning mode
), said as (
    insert into stoker.events (actor, action, reason) select :actor, 'gate opened', :reason from opened
), noted as (
    update stoker.installation set gate_opened_at = now() from opened
)
select mode from opened
