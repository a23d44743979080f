-- A schedule that is not registered yet: what was due before now is of no concern.
insert into stoker.schedules (schedule, rule, since) values (:schedule, :rule::json, now())
on conflict (schedule) do update set seen_at = now() where schedules.seen_at < now() - interval '1 minute'
