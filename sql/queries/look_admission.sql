-- What admission decides by: to be run after lock_lane, in the same transaction.
select now() as now, (now() at time zone :timezone)::date as day,
       (select fire from stoker.fires where lane = :lane and state in ('open', 'closing')) as active,
       (select count(*) from stoker.fires
         where lane = :lane and state <> 'refused' and day = (now() at time zone :timezone)::date) as fires_today,
       (select extract(epoch from now() - max(opened_at))::float8 from stoker.fires
         where lane = :lane and state <> 'refused') as seconds_since_last,
       (select fire from stoker.fires where key = :key) as taken,
       (select reason || ' (' || actor || ')' from stoker.paused where mode = '*') as gate
