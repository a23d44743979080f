-- A heartbeat of a loop, with how many batches in a row failed, and why the last did.
insert into stoker.heartbeats (component, instance, expected_seconds, failures, error)
values (:component, :instance, :expected, :failures, :error)
on conflict (component, instance) do update
set at = now(), expected_seconds = excluded.expected_seconds, failures = excluded.failures, error = excluded.error
