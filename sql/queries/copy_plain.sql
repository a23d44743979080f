copy stoker.tasks (id, mode, version, priority, max_attempts, payload) from stdin
