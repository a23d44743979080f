-- How far a duty has got; :pause seconds until it goes on.
update stoker.marks set id = :id, resume_at = now() + make_interval(secs => :pause) where name = :name returning id
