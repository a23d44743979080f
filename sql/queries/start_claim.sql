-- Say that the tasks of a claim made ahead may now be handed to the runner.
update stoker.claims set started = true, dead_by = now() + make_interval(secs => :dead_after)
where token = :token returning token
