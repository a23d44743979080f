-- Note this boot's clock offset; the offset noted before, or null for a boot seen for the first time.
with before as (
    select clock_offset from stoker.hosts where boot_id = :boot_id
), noted as (
    insert into stoker.hosts (boot_id, host, clock_offset)
    values (:boot_id, :host, extract(epoch from now())::float8 - :since_boot)
    on conflict (boot_id) do update set clock_offset = excluded.clock_offset, seen_at = now()
)
select (select clock_offset from before) as before, extract(epoch from now())::float8 - :since_boot as current
