-- How far a duty has got, if it is due and nobody else does it. In a statement of its own: PostgreSQL 18.4 and before may
-- crash when rows are locked and partitions are chosen at run time in one statement.
select id from stoker.marks
where name = :name and (resume_at <= now() or resume_at > now() + make_interval(secs => :pause)) for update skip locked
