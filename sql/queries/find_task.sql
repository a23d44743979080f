select id, mode, status, payload, priority, version, attempts, max_attempts, available_at, created_at, claimed_by::text,
       claimed_at, finished_at, fire, seconds, label, result, error_kind, error_detail, suspect,
       held_for, question, is_in_line, lane_key, key, tags, expires_at, cancel_asked_at, progress, progress_text
from stoker.task_queue where id = :id
