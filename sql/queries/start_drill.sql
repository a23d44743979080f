-- A slot that is withheld: due every second from now on, of a name that no configuration can have, and gone after :seconds. To
-- be repeated when its reply was lost.
insert into stoker.schedules (schedule, rule, since, drill_until)
values (:name, :rule::json, now(), now() + make_interval(secs => :seconds))
on conflict (schedule) do nothing
