-- End up to :limit queued spans, and as many held tasks and tasks in a line, whose time has passed.
with late as (
    delete from stoker.ready where span = any(array(
        select span from stoker.ready where expires_at <= now() order by expires_at limit :limit for update skip locked))
    returning lo, hi, attempts
), waiting as (
    delete from stoker.later where span = any(array(
        select span from stoker.later where expires_at <= now() order by expires_at limit :limit for update skip locked))
    returning lo, hi, attempts
), undecided as (
    delete from stoker.held where id = any(array(
        select id from stoker.held where expires_at <= now() order by expires_at limit :limit for update skip locked))
    returning id as lo, id as hi, attempts
), behind as (
    delete from stoker.in_line where id = any(array(
        select id from stoker.in_line where expires_at <= now() order by expires_at limit :limit for update skip locked))
    returning id as lo, id as hi, 0 as attempts
), gone as (
    insert into stoker.expired (id, attempts)
    select generate_series(lo, hi), attempts
    from (select * from late union all select * from waiting union all select * from undecided union all select * from behind) as all_of_them
    returning id
), answered as (
    delete from stoker.cancel_requests where id = any(array(select id from gone))
)
select count(*) as expired from gone
