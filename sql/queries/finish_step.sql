-- Store a finished step of a task, and how far it is then, if its mode lists its steps. No row: the task is not held under
-- this token, and nothing was stored. The lock makes a release wait, so that who claims the task next sees the step.
with mine as (
    select c.token from stoker.claims c
    where c.token = :token and exists (select from unnest(c.los, c.his) as s (lo, hi) where :id between s.lo and s.hi)
    for key share
), kept as (
    insert into stoker.steps (id, name, attempt, result)
    select :id, :name, :attempt, :result::json from mine
    on conflict (id, name) do nothing
), told as (
    insert into stoker.progress as p (id, attempt, fraction, words)
    select :id, :attempt, least(:fraction::real, 1), :name from mine where :fraction::real is not null
    on conflict (id) do update
    set attempt = excluded.attempt, fraction = excluded.fraction, words = excluded.words, said_at = now()
)
select token from mine
