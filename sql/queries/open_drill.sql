-- The one page of a drill: whatever else was told within the hour. Repeated it finds the incident, and writes no second page.
with told as (
    update stoker.incidents set paged_at = now(), pages = pages + 1
    where cause = :cause and resolved_at is null and pages = 0 returning incident, words
), made as (
    insert into stoker.pages (incident, action, number, words) select incident, 'trigger', 1, words from told
    returning page, incident
), sent as (
    insert into stoker.page_deliveries (page, channel) select page, c.channel
    from made cross join unnest(:channels::text[]) as c (channel)
)
select incident from stoker.incidents where cause = :cause and resolved_at is null
