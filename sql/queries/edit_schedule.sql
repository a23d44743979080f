-- Another rule from now on, if it is another; what was due before under the old one has been decided.
update stoker.schedules set rule = :rule::json, since = :since, seen_at = now()
where schedule = :schedule and rule::jsonb <> :rule::jsonb
