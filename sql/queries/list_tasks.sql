-- Tasks for people, newest first or by what is asked for.
select id, mode, status, priority, attempts, max_attempts, available_at, created_at, finished_at, fire, seconds, label,
       error_kind, error_detail, claimed_by::text, held_for, is_in_line
from stoker.task_queue
where (:mode::text is null or mode = :mode) and (:state::text is null or status = :state)
  and (:fire::bigint is null or fire = :fire) and (:label::text is null or label = :label)
  and (:kind::text is null or error_kind = :kind)
order by id desc limit :limit
