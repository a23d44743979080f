-- A heartbeat of one who starts fires of these modes. The next may be as late as :gaps times what lay between the last two.
insert into stoker.heartbeats as h (component, instance, expected_seconds, modes)
values (:component, :instance, :expected, :modes::text[])
on conflict (component, instance) do update set at = now(), modes = excluded.modes, beats = h.beats + 1,
    began_at = case when h.expected_seconds = 0 then now() else h.began_at end, expected_seconds = greatest(
    excluded.expected_seconds, least(:gaps::float8 * extract(epoch from now() - h.at), 172800))
