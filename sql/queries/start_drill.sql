-- A slot that is withheld: due every second from now on, of a name that no configuration can have, and gone after :seconds.
insert into stoker.schedules (schedule, rule, since, drill_until)
values (:name, :rule::json, now(), now() + make_interval(secs => :seconds))
