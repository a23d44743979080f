-- What the last fires of each lane came to, newest first, by what their notes say: 'idle' started no worker though its plan saw
-- claimable tasks; 'hollow' did nothing while tasks waited; 'failed' tried some, and all went wrong. Besides, of the newest:
-- whether what it left can be claimed now, seconds since it ended, and whether a schedule or stoker wrap has another one come.
with told as (
    select l.lane, f.fire, f.closed_at, n.verdict, facts ->> 'ended' as ended, json_array_length(facts -> 'failures') as failures,
           (facts #>> '{workers,launched}')::integer as launched,
           (select sum((m ->> 'done')::bigint) from json_array_elements(facts -> 'modes') m) as done,
           case when json_typeof(facts -> 'plan') = 'object'
                then array(select s ->> 'mode' from json_array_elements(facts #> '{plan,shares}') s
                            where (s ->> 'backlog')::bigint > 0 and s ->> 'ceiling' <> 'paused')
                else array(select m ->> 'mode' from json_array_elements(facts -> 'modes') m where (m ->> 'left')::bigint > 0
                           except select p ->> 'mode' from json_array_elements(facts -> 'paused') p) end as waited
    from stoker.lanes l cross join lateral (
        select fire, closed_at from stoker.fires f where f.lane = l.lane and f.state = 'closed' order by f.opened_at desc limit :count
    ) as f join stoker.notes n using (fire)
), judged as (
    select lane, fire, closed_at, waited, case
        when launched = 0 and ended = 'normal' and waited <> '{}' then 'idle'
        when launched = 0 and ended in ('reaped', 'interrupted', 'deadline') and waited <> '{}' then 'hollow'
        when launched > 0 and done = 0 and failures > 0 then 'failed'
        when launched > 0 and verdict like 'hollow%' then 'hollow' else 'well' end as came_to
    from told
), newest as (
    select distinct on (lane) lane, fire, closed_at, waited from judged order by lane, fire desc
)
select n.lane, (select array_agg(j.came_to order by j.fire desc) from judged j where j.lane = n.lane) as came_to,
       exists (select from unnest(n.waited) as w (mode) where not exists (select from stoker.paused p where p.mode = w.mode)
               and (exists (select from stoker.ready r where r.mode = w.mode)
                    or exists (select from stoker.later r where r.mode = w.mode and r.available_at <= now()))) as waits,
       extract(epoch from now() - n.closed_at)::float8 as silent_seconds,
       l.expected_seconds is not null or exists (select from stoker.slots o join stoker.schedules s using (schedule)
                                                 where o.fire = n.fire and s.paused_by is null) as is_expected
from newest n join stoker.lanes l using (lane) order by n.lane
