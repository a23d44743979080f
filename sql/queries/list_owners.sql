-- Whoever the database takes for alive or for the holder of a claim, and the owners of active fires; fires' come last.
select 'worker' as kind, w.worker::text as name, w.owner from stoker.workers w
where w.exited_at is null or exists (select from stoker.claims c where c.worker = w.worker)
union all
select 'fire', fire::text, owner from stoker.fires where state in ('open', 'closing')
order by 1 desc, 2
