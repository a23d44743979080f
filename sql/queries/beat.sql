insert into stoker.heartbeats (component, instance, expected_seconds) values (:component, :instance, :expected)
on conflict (component, instance) do update set at = now(), expected_seconds = excluded.expected_seconds
