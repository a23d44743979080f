-- Look at :limit tasks after :mark, the oldest first, and take out, with all that belongs to them, those that ended
-- more than :keep seconds ago. A span of done ones goes as a whole. Who stands at the front of a line stays, and whose
-- key is not free yet. At the end the mark goes back to the start, and rests.
with seen as (
    select id, created_at < now() - make_interval(secs => :keep) as is_old
    from stoker.tasks where id > :mark order by id limit :limit
), last as (
    select max(id) filter (where is_old) as id, count(*) filter (where is_old) = :limit as has_more from seen
), bounds as (
    select coalesce((select case when hi > l.id then hi end from stoker.outcomes where lo <= l.id order by lo desc limit 1),
                    l.id) as upto, l.has_more
    from last l
), done as (
    delete from stoker.outcomes o
    where o.lo > :mark and o.lo <= (select upto from bounds)
      and o.finished_at < now() - make_interval(secs => :keep)
      and not exists (select from stoker.lines l where l.id between o.lo and o.hi)
      and not exists (select from stoker.keys k where k.id between o.lo and o.hi
                         and o.finished_at + make_interval(secs => k.seconds) > now())
    returning o.lo, o.hi
), ended as (
    select id, failed_at as at, 'failed' as place from stoker.failed
    where id > :mark and id <= (select upto from bounds)
    union all select id, cancelled_at, 'cancelled' from stoker.cancelled
    where id > :mark and id <= (select upto from bounds)
    union all select id, expired_at, 'expired' from stoker.expired
    where id > :mark and id <= (select upto from bounds)
), over as (
    select id, place from ended e
    where at < now() - make_interval(secs => :keep)
      and not exists (select from stoker.lines l where l.id = e.id)
      and not exists (select from stoker.keys k where k.id = e.id and e.at + make_interval(secs => k.seconds) > now())
), failed as (
    delete from stoker.failed where id = any(array(select id from over where place = 'failed')) returning id
), cancelled as (
    delete from stoker.cancelled where id = any(array(select id from over where place = 'cancelled')) returning id
), expired as (
    delete from stoker.expired where id = any(array(select id from over where place = 'expired')) returning id
), gone as materialized (
    select generate_series(lo, hi) as id from done union all select id from failed
    union all select id from cancelled union all select id from expired
), tasks as (
    delete from stoker.tasks where id > :mark and id <= (select upto from bounds)
      and id = any(array(select id from gone)) returning id
), attempts as (
    delete from stoker.attempts where id = any(array(select id from gone))
), outputs as (
    delete from stoker.outputs where id = any(array(select id from gone))
), steps as (
    delete from stoker.steps where id = any(array(select id from gone))
), progress as (
    delete from stoker.progress where id = any(array(select id from gone))
), requests as (
    delete from stoker.cancel_requests where id = any(array(select id from gone))
), keys as (
    delete from stoker.keys where id = any(array(select id from gone))
), moved as (
    update stoker.marks m set id = case when b.has_more then b.upto else 0 end,
        resume_at = case when b.has_more then m.resume_at else now() + make_interval(secs => :pause) end
    from bounds b where m.name = 'tasks'
)
select (select count(*) from tasks) as pruned, has_more from bounds
