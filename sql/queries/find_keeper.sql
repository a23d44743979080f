-- What forbids to drop the tasks from :lo to before :hi; null: nothing. More than :most that ended otherwise than done are
-- too many to be deleted at once. Only when :thorough is every outcome looked at. Of what is claimable, each kind is
-- looked for by its index: there is none by id.
with recursive kinds as (
    (select mode, version, priority from stoker.ready order by mode, version, priority limit 1)
    union all
    select n.mode, n.version, n.priority from kinds k cross join lateral (
        select mode, version, priority from stoker.ready r
        where (r.mode, r.version, r.priority) > (k.mode, k.version, k.priority)
        order by mode, version, priority limit 1) as n
)
select case
    when (select created_at from stoker.tasks where id >= :lo and id < :hi order by id desc limit 1)
         >= now() - make_interval(secs => :keep) then 'young'
    when exists (select from stoker.tasks_beyond where id >= :lo and id < :hi)
      or exists (select from stoker.outcomes_beyond where lo >= :lo and lo < :hi)
      or exists (select from stoker.attempts_beyond where id >= :lo and id < :hi)
      or exists (select from stoker.outputs_beyond where id >= :lo and id < :hi) then 'in the net'
    when exists (select from kinds k cross join lateral (
                     select from stoker.ready r where r.mode = k.mode and r.version = k.version and r.priority = k.priority
                       and r.lo >= :lo and r.lo < :hi limit 1) as one)
      or exists (select from stoker.later where lo >= :lo and lo < :hi) then 'queued'
    when exists (select from stoker.claims c, unnest(c.los) as lo where lo >= :lo and lo < :hi) then 'in progress'
    when exists (select from stoker.held where id >= :lo and id < :hi)
      or exists (select from stoker.unknown where id >= :lo and id < :hi)
      or exists (select from stoker.in_line where id >= :lo and id < :hi)
      or exists (select from stoker.lines where id >= :lo and id < :hi) then 'undecided'
    when exists (select from stoker.keys where id >= :lo and id < :hi and seconds > :keep) then 'key'
    when (select count(*) from (select from stoker.failed where id >= :lo and id < :hi limit :most + 1) as f) > :most
      or (select count(*) from (select from stoker.cancelled where id >= :lo and id < :hi limit :most + 1) as c) > :most
      or (select count(*) from (select from stoker.expired where id >= :lo and id < :hi limit :most + 1) as e) > :most
        then 'ended'
    when :thorough and exists (select from stoker.outcomes where lo >= :lo and lo < :hi
                                  and finished_at >= now() - make_interval(secs => :keep)) then 'done'
    end as keeper
