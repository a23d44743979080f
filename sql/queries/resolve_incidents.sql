-- What was not found for a while is over: one that comes and goes stays one. That of a drill is over when that is.
update stoker.incidents i set resolved_at = now()
where resolved_at is null and cause <> all(:causes::text[]) and seen_at < now() - make_interval(secs => :quiet)
  and not exists (select from stoker.schedules s where s.schedule = i.cause and s.drill_until is not null)
returning cause
