-- Seconds since the last fire of a lane that reached its note by itself; null when there is none.
select extract(epoch from now() - max(f.closed_at))::float8 from stoker.fires f join stoker.notes n using (fire)
where f.lane = :lane and n.facts ->> 'ended' not in ('reaped', 'restored')
