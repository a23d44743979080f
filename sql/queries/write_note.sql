insert into stoker.notes (fire, verdict, facts) values (:fire, :verdict, :facts)
