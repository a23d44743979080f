select id, mode, status, payload, priority, version, attempts, max_attempts, available_at, created_at, claimed_by::text,
       claimed_at, finished_at, fire, seconds, label, result, error_kind, error_detail, suspect
from stoker.task_queue where id = :id
