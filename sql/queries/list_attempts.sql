-- Every attempt of a task, the done one too. Of a task that was settled with others, the seconds are their mean.
select a.attempt, a.fire, a.worker::text, a.verdict, a.error_kind, a.error,
       a.finished_at - make_interval(secs => a.seconds) as started_at, a.finished_at, a.seconds, a.is_mean, f.code_version
from (select attempt, fire, worker, verdict, error_kind, error, finished_at, seconds, false as is_mean
      from stoker.attempts where id = :id
      union all
      select attempt, fire, worker, 'done', null, null, finished_at, seconds, lo < hi
      from (select * from stoker.outcomes where lo <= :id order by lo desc limit 1) as last where hi >= :id) as a
left join stoker.fires f on f.fire = a.fire
order by a.attempt, a.finished_at
