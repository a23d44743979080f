-- By mode that nobody has paused: how many seconds its oldest task has been claimable, or due. All by index, so that it costs the
-- same however many wait: of each version and priority the next hundred in turn are looked at, and the first hundred of these;
-- and the first hundred that were due, their times found one after the other: for one row no plan sorts them all.
with recursive modes as (
    select least((select min(mode) from stoker.ready), (select min(mode) from stoker.later)) as mode
    union all
    select least((select min(r.mode) from stoker.ready r where r.mode > m.mode),
                 (select min(l.mode) from stoker.later l where l.mode > m.mode)) from modes m where m.mode is not null
)
select m.mode, extract(epoch from now() - min(w.since))::float8 as seconds
from modes m cross join lateral (
    with recursive turns as (
        (select version, priority, 1 as place from stoker.ready where mode = m.mode order by version, priority limit 1)
        union all
        select n.version, n.priority, t.place + 1 from turns t cross join lateral (
            select r.version, r.priority from stoker.ready r
            where r.mode = m.mode and (r.version, r.priority) > (t.version, t.priority)
            order by r.version, r.priority limit 1) as n
        where t.place < 100
    ), times as (
        (select available_at, 1 as place from stoker.later
         where mode = m.mode and available_at <= now() order by available_at limit 1)
        union all
        select n.available_at, t.place + 1 from times t cross join lateral (
            select l.available_at from stoker.later l
            where l.mode = m.mode and l.available_at > t.available_at and l.available_at <= now()
            order by l.available_at limit 1) as n
        where t.place < 100
    )
    select next.since, next.expires_at from turns t cross join lateral (
        select r.ready_since as since, r.expires_at from stoker.ready r
        where r.mode = m.mode and r.version = t.version and r.priority = t.priority order by r.lo limit 100) as next
    union all
    (select t.available_at, next.expires_at from times t cross join lateral (
        select l.expires_at from stoker.later l where l.mode = m.mode and l.available_at = t.available_at limit 100) as next
     limit 100)
) as w
where not exists (select from stoker.paused where mode = m.mode) and (w.expires_at is null or w.expires_at > now())
group by m.mode order by m.mode
