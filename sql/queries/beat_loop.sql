-- A heartbeat of a loop, with how many batches in a row failed, and why the last did.
insert into stoker.heartbeats as h (component, instance, expected_seconds, failures, error)
values (:component, :instance, :expected, :failures, :error)
on conflict (component, instance) do update
set at = now(), expected_seconds = excluded.expected_seconds, beats = h.beats + 1, failures = excluded.failures,
    error = excluded.error, began_at = case when h.expected_seconds = 0 then now() else h.began_at end
