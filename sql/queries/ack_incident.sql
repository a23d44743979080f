-- Somebody takes an incident upon themselves; programs that were told of it learn that. No row: there is none that is open and
-- nobody's. To be run after lock_pages.
with acked as (
    update stoker.incidents set acked_by = :actor, acked_at = now(), ack_reason = :reason, pages = pages + 1
    where cause = :cause and resolved_at is null and acked_at is null returning incident, cause, pages
), said as (
    insert into stoker.events (actor, action, reason, detail)
    select :actor, 'acknowledge', :reason, json_build_object('incident', incident, 'cause', cause) from acked
), told as (
    select distinct a.incident, d.channel from acked a join stoker.pages p using (incident) join stoker.page_deliveries d using (page)
    where d.channel = any(:programs::text[]) and (d.state = 'taken' or d.sending_until is not null or d.in_doubt)
), outdated as (
    update stoker.page_deliveries d set state = 'outdated' from stoker.pages p join acked a using (incident)
    where d.page = p.page and d.state = 'waiting'
), made as (
    insert into stoker.pages (incident, action, number, words)
    select incident, 'acknowledge', pages, :actor || ': ' || :reason from acked where incident in (select incident from told)
    returning page, incident
), sent as (
    insert into stoker.page_deliveries (page, channel) select m.page, t.channel from made m join told t using (incident)
)
select incident from acked
