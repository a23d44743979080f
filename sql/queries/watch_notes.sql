-- What the last fires of each lane came to, newest first, by what their notes say: 'idle' started no worker though its plan
-- saw claimable tasks; 'hollow' started some, and none was done though tasks waited, or all that were tried went wrong.
select l.lane, array_agg(case
    when launched = 0 and ended = 'normal' and planned > 0 then 'idle'
    when launched > 0 and (verdict like 'hollow%' or done = 0 and failures > 0) then 'hollow' else 'well' end
    order by fire desc) as came_to
from stoker.lanes l cross join lateral (
    select f.fire, n.verdict, n.facts from stoker.fires f join stoker.notes n using (fire)
    where f.lane = l.lane and f.state <> 'refused' order by f.opened_at desc limit :count
) as last cross join lateral (
    select facts ->> 'ended' as ended, (facts #>> '{workers,launched}')::integer as launched,
           json_array_length(facts -> 'failures') as failures,
           (select sum((m ->> 'done')::bigint) from json_array_elements(facts -> 'modes') m) as done,
           (select sum((s ->> 'backlog')::bigint)
              from json_array_elements(case json_typeof(facts -> 'plan') when 'object' then facts #> '{plan,shares}' end) s
             where s ->> 'ceiling' <> 'paused') as planned
) as told
group by l.lane order by l.lane
