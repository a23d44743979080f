-- Remember what a configuration has: stoker.enqueue checks against it. Nothing is written, nor locked, when nothing is new.
with told as (
    select mode, version from unnest(:modes::text[], :versions::integer[]) as s (mode, version)
), seen as (
    insert into stoker.modes as m (mode, version)
    select mode, version from told
    where not exists (select from stoker.modes k
                      where k.mode = told.mode and k.version = told.version and k.seen_at > now() - interval '1 day')
    order by mode
    on conflict (mode) do update set version = excluded.version, seen_at = now()
)
update stoker.installation set payload_limit = :payload_limit::integer where payload_limit <> :payload_limit::integer
