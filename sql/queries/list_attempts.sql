select attempt, fire, worker::text, verdict, error_kind, error, finished_at, seconds
from stoker.attempts where id = :id order by attempt, finished_at
