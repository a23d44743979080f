insert into stoker.heartbeats as h (component, instance, expected_seconds) values (:component, :instance, :expected)
on conflict (component, instance) do update set at = now(), expected_seconds = excluded.expected_seconds, beats = h.beats + 1,
    began_at = case when h.expected_seconds = 0 then now() else h.began_at end
