-- The pages that are due, and never more within an hour than :most: first ones go first, then escalations, then repetitions, each
-- time those that were told longest ago. Of an incident that somebody has acknowledged there are none. A restore may take its time (:grace) before that is told. To be run after lock_pages.
with room as (
    select greatest(:most - count(*), 0) as pages from stoker.pages p join stoker.incidents i using (incident)
    where p.at > now() - interval '1 hour' and p.action in ('trigger', 'escalate') and i.cause not like 'drill %'
), due as (
    select incident, is_old from stoker.incidents cross join lateral (
        select coalesce(opened_at < now() - make_interval(secs => :escalate), false) as is_old) as age
    where resolved_at is null and acked_at is null and cause not like 'drill %'
      and (cause <> 'restored' or opened_at < now() - make_interval(secs => :grace))
      and (paged_at is null or paged_at < now() - make_interval(secs => :repeat)
           or escalated_at is null and opened_at < now() - make_interval(secs => :escalate))
    order by incidents.pages > 0, escalated_at is not null or not is_old, paged_at nulls first, incident limit (select pages from room) for update of incidents
), told as (
    update stoker.incidents i set paged_at = now(), pages = i.pages + 1,
           escalated_at = case when is_old then coalesce(escalated_at, now()) end
    from due where i.incident = due.incident returning i.incident, i.words, i.pages, is_old
), made as (
    insert into stoker.pages (incident, action, number, words)
    select incident, case when is_old then 'escalate' else 'trigger' end, pages, words from told returning page, incident, action
), outdated as (
    update stoker.page_deliveries d set state = 'outdated' from stoker.pages p, made m
    where p.incident = m.incident and d.page = p.page and d.state = 'waiting'
), sent as (
    insert into stoker.page_deliveries (page, channel) select m.page, c.channel
    from made m cross join unnest(:channels::text[] || case when m.action = 'escalate' then :second::text[] end) as c (channel)
)
select count(*) as pages from made
