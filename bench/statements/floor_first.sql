-- When the first batch was claimed, as stoker's workers say it.
update stoker.workers set first_task_at = now() where worker = %(worker)s and first_task_at is null
