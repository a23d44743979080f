-- What tells why a task is not running now.
select q.id, q.mode, q.status, q.version, q.attempts, q.max_attempts, q.created_at, q.available_at, q.expires_at,
       extract(epoch from q.available_at - now())::float8 as due_in, q.expires_at <= now() as is_late,
       q.claimed_by::text, q.claimed_at, q.cancel_asked_at, q.finished_at, q.fire, q.error_kind, q.error_detail,
       q.held_for, q.question, q.is_in_line, q.lane_key, q.suspect, t.erased_at,
       (select l.id from stoker.lines l where l.mode = q.mode and l.lane_key = q.lane_key) as front,
       p.actor as paused_by, p.since as paused_at, p.reason as paused_because,
       u.dead_by, u.dead_by > now() as is_early, h.since as held_at, c.actor as cancelled_by,
       (select e.actor from stoker.events e where e.task = q.id and e.action = 'hold' order by e.event desc limit 1) as held_by,
       array(select f.fire from stoker.fires f where f.state in ('open', 'closing') order by f.fire) as fires
from stoker.task_queue q join stoker.tasks t on t.id = q.id
left join lateral (select * from stoker.paused where mode in (q.mode, '*') order by mode limit 1) p on true
left join stoker.unknown u on u.id = q.id
left join stoker.held h on h.id = q.id
left join stoker.cancelled c on c.id = q.id
where q.id = :id and t.id = :id
