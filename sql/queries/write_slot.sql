insert into stoker.slots (schedule, due_at, last_due_at, state, reason, fire)
values (:schedule, :due_at, :last_due_at, :state, :reason, :fire)
