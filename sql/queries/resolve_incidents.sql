-- What was not found for a while is over: one that comes and goes stays one.
update stoker.incidents set resolved_at = now()
where resolved_at is null and cause <> all(:causes::text[]) and seen_at < now() - make_interval(secs => :quiet)
returning cause
