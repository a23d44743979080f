-- A heartbeat of one who starts fires of these modes. The next may be as late as :gaps times what lay between the last two.
insert into stoker.heartbeats (component, instance, expected_seconds, modes)
values (:component, :instance, :expected, :modes::text[])
on conflict (component, instance) do update set at = now(), modes = excluded.modes, expected_seconds = greatest(
    excluded.expected_seconds, least(:gaps::float8 * extract(epoch from now() - heartbeats.at), 172800))
