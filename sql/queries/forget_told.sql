-- In what came out of a dump: what was told, or was to be told, is of another life, and so is whether it is over.
with over as (
    update stoker.incidents set resolved_at = now(), resolve_paged = true where resolved_at is null and cause <> 'restored'
    returning incident
), untold as (
    update stoker.page_deliveries d set state = 'outdated' from stoker.pages p join stoker.incidents i using (incident)
    where d.page = p.page and d.state = 'waiting' and i.cause <> 'restored'
)
select count(*) as incidents from over
