-- Who closed the gate, since when and why. No row: it is open.
select actor, since, reason, extract(epoch from now() - since)::float8 as seconds from stoker.paused where mode = '*'
