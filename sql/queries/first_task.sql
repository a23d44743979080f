-- When the worker's first task was handed to its runner.
update stoker.workers set first_task_at = now() where worker = :worker and first_task_at is null returning worker
