-- Whoever else wants to decide a slot of this schedule waits. What was decided is read in a later statement: this one's
-- snapshot is older than what it waits for.
select schedule from stoker.schedules where schedule = :schedule for update
