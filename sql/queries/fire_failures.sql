-- Attempts of a fire that went wrong, by mode and kind, each with its newest example.
with kinds as (
    select t.mode, a.error_kind, a.verdict, a.id, a.attempt, a.error, a.finished_at
    from stoker.attempts a join stoker.tasks t on t.id = a.id
    where a.fire = :fire and a.verdict in ('failed', 'retry', 'unknown')
)
select mode, error_kind as kind, count(*) as count,
       count(*) filter (where verdict = 'failed') as failed, count(*) filter (where verdict = 'retry') as retried,
       count(*) filter (where verdict = 'unknown') as unknown,
       (array_agg(id order by finished_at desc, id desc))[1] as task,
       (array_agg(attempt order by finished_at desc, id desc))[1] as attempt,
       (array_agg(error order by finished_at desc, id desc))[1] as error
from kinds group by mode, error_kind order by mode, count(*) desc, error_kind limit 200
