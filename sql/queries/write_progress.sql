-- Store how far tasks are that are still held under their tokens.
with mine as (
    select w.id, w.attempt, w.fraction, w.words
    from json_to_recordset(:words::json) as w (token uuid, id bigint, attempt integer, fraction real, words text)
    join stoker.claims c using (token)
    where exists (select from unnest(c.los, c.his) as s (lo, hi) where w.id between s.lo and s.hi)
    for key share of c
)
insert into stoker.progress as p (id, attempt, fraction, words)
select id, attempt, fraction, words from mine
on conflict (id) do update
set attempt = excluded.attempt, fraction = excluded.fraction, words = excluded.words, said_at = now()
