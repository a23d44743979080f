-- Which duties are to go on, and from where. None rests for longer than :pause seconds, whatever it was told before.
select name, id from stoker.marks where resume_at <= now() or resume_at > now() + make_interval(secs => :pause)
