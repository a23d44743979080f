-- A heartbeat of cron for one schedule, on this host; none while a clock stands there, which starts such fires itself.
insert into stoker.heartbeats (component, instance, expected_seconds, modes)
select :component, :instance, :expected, :modes::text[]
where not exists (select from stoker.heartbeats c
                  where c.component = 'schedule' and left(c.instance, length(:instance) + 1) = :instance || ':'
                    and now() - c.at <= make_interval(secs => c.expected_seconds))
on conflict (component, instance) do update
set at = now(), modes = excluded.modes, expected_seconds = excluded.expected_seconds
