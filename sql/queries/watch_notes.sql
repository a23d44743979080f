-- The last notes of each lane, newest first: was there work, and was none of it done.
select lane, array_agg(verdict like 'hollow%' order by fire desc) as hollow
from (select f.lane, n.fire, n.verdict, row_number() over (partition by f.lane order by n.fire desc) as nth
      from stoker.notes n join stoker.fires f using (fire)) as numbered
where nth <= :count group by lane order by lane
