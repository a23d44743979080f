-- Active fires, older than a day, whose owner's boot no sweep has ever seen.
select fire, owner ->> 'host', opened_at from stoker.fires f
where state in ('open', 'closing') and opened_at < now() - interval '1 day'
  and not exists (select from stoker.hosts h where h.boot_id = f.owner ->> 'boot_id')
order by fire
