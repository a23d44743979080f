-- Make up to :limit due spans claimable, as of when they were due; each gets a new span id. By an array of ids, each is found by
-- its key.
with due as (
    delete from stoker.later where span = any(array(
        select span from stoker.later where available_at <= now()
        order by available_at limit :limit for update skip locked))
    returning mode, version, priority, lo, hi, attempts, available_at, expires_at, lane_key
), moved as (
    insert into stoker.ready (mode, version, priority, lo, hi, attempts, ready_since, expires_at, lane_key)
    select mode, version, priority, lo, hi, attempts, available_at, expires_at, lane_key from due returning 1
)
select count(*) as promoted from moved
