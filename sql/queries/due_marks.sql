-- Which duties are to go on, and from where.
select name, id from stoker.marks where resume_at <= now()
