-- How often fires of a lane are expected from now on, null: not at all; what is said again changes nothing.
insert into stoker.lanes as l (lane, expected_seconds, expected_since)
values (:lane, :expected::float8, case when :expected::float8 is not null then now() end)
on conflict (lane) do update set expected_seconds = excluded.expected_seconds, expected_since = excluded.expected_since
where l.expected_seconds is distinct from excluded.expected_seconds
