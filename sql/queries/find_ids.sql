-- The ids of tasks in some states, oldest first; the age is that of the state, of what is queued that of the task.
select c.id, c.state, t.mode, c.held_for
from (select id, 'failed' as state, failed_at as since, error_kind, null as held_for from stoker.failed where 'failed' = any(:states::text[])
      union all select id, 'cancelled', cancelled_at, null, null from stoker.cancelled where 'cancelled' = any(:states)
      union all select id, 'unknown', since, error_kind, null from stoker.unknown where 'unknown' = any(:states)
      union all select id, 'held', since, null, kind from stoker.held
                where 'held' = any(:states) and (:held::text[] is null or kind = any(:held))
      union all select generate_series(lo, hi), 'queued', null, null, null from stoker.ready where 'queued' = any(:states)
      union all select generate_series(lo, hi), 'queued', null, null, null from stoker.later where 'queued' = any(:states)
      union all select id, 'queued', null, null, null from stoker.in_line where 'queued' = any(:states)
      union all select generate_series(s.lo, s.hi), 'in_progress', k.claimed_at, null, null
                from stoker.claims k, unnest(k.los, k.his) as s (lo, hi) where 'in_progress' = any(:states)) as c
join stoker.tasks t on t.id = c.id
where (:mode::text is null or t.mode = :mode) and (:kind::text is null or c.error_kind = :kind)
  and (:tag::text is null or t.tags @> array[:tag::text])
  and (:key::text is null or exists (select from stoker.keys k where k.id = c.id and k.key = :key))
  and (:older::float8 is null or coalesce(c.since, t.created_at) < now() - make_interval(secs => :older))
order by c.id
