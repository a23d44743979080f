-- That incidents are over, for the channels that took a page of them, or may have: nobody knows of a try that was cut off, or was
-- not answered in time. An incident of which a page is being sent waits. To be run after lock_pages.
with over as (
    update stoker.incidents i set resolve_paged = true, pages = i.pages + (i.pages > 0)::integer
    where resolved_at is not null and not resolve_paged and not exists (
        select from stoker.pages p join stoker.page_deliveries d using (page)
        where p.incident = i.incident and d.sending_until > now())
    returning incident, words, pages
), told as (
    select distinct o.incident, d.channel from over o join stoker.pages p using (incident) join stoker.page_deliveries d using (page)
    where d.state = 'taken' or d.sending_until is not null or d.in_doubt
), outdated as (
    update stoker.page_deliveries d set state = 'outdated' from stoker.pages p join over o using (incident)
    where d.page = p.page and d.state = 'waiting'
), made as (
    insert into stoker.pages (incident, action, number, words)
    select incident, 'resolve', pages, words from over where incident in (select incident from told) returning page, incident
), sent as (
    insert into stoker.page_deliveries (page, channel) select m.page, t.channel from made m join told t using (incident)
)
select count(*) as over from made
