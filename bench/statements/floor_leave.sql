-- The floor's worker has left; nobody has to look for it.
update stoker.workers set exited_at = now(), exit_reason = 'empty' where worker = %(worker)s
