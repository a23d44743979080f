-- Make the spans of ids that this transaction inserted claimable, now or at their time.
with spans as (
    select * from unnest(:modes::text[], :versions::integer[], :priorities::integer[], :los::bigint[], :his::bigint[],
                         :times::timestamptz[], :ends::timestamptz[])
        as s (mode, version, priority, lo, hi, available_at, expires_at)
), now_ready as (
    insert into stoker.ready (mode, version, priority, lo, hi, expires_at)
    select mode, version, priority, lo, hi, expires_at from spans where coalesce(available_at <= now(), true)
)
insert into stoker.later (mode, version, priority, lo, hi, available_at, expires_at)
select mode, version, priority, lo, hi, available_at, expires_at from spans where available_at > now()
