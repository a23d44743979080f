copy stoker.tasks (id, mode, version, priority, max_attempts, tags, expires_at, needs_approval, lane_key, key, payload) from stdin
